"""Send three mails: one now, one in two seconds, and one that succeeds at the third attempt."""

from scheduler import Producer, Worker
from scheduler_backends.memory import MemoryBackend

backend = MemoryBackend()
producer = Producer(backend)
worker = Worker(backend)
sent: list[str] = []


@worker.handler("email.send")
def send_email(job, ctx):
    if job.attempts <= ctx.data.get("failures", 0):
        raise ConnectionError("the mail server is busy")
    print(f"attempt {job.attempts}: mail to {ctx.data['to']}")
    sent.append(ctx.data["to"])
    if len(sent) == 3:
        worker.request_stop()


producer.enqueue("email.send", {"to": "ada@example.org"})
producer.enqueue("email.send", {"to": "bob@example.org"}, delay=2)
producer.enqueue("email.send", {"to": "eve@example.org", "failures": 2})
worker.run()
