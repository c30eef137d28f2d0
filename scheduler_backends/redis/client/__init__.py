"""
Client for one Redis server or for a cluster. Each call is one round trip.

No command that may have had an effect is sent again. To ensure this, the client uses the connections of redis-py, but
not its clients: see decision 0010.

The rest of the backend uses only a `Router`. It takes commands, each with the key that decides where it is sent, and
returns their answers. The answer of a command that failed is an exception. A router is a `Node` (node.py), which is one
server with its idle connections, or a `Cluster` (cluster.py), which finds the node of each slot. connections.py makes a
router from a client of the user, urls.py makes one from a URL.
"""
