"""
Real servers for tests: found on this machine, started, killed, frozen, restarted, and put behind a faulty proxy.

Tests ask for the fixtures of `servers.fixtures`. The classes may also be used by themselves:

    with RedisServer(redis_binary, persistence="always") as server:
        client = redis.Redis.from_url(server.url)
        server.kill()
        server.start()  # same port, same data

Start servers from the main thread only: the kernel ends a server when the thread that started it ends, which is what
leaves no orphan behind when the tests themselves are killed.
"""
