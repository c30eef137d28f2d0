"""
The client: connections to one server or the nodes of a cluster, each call one round trip, and nothing sent twice.

Built on redis-py's connections instead of its clients, for the reasons in decision 0010. A `Router` is all that the
rest of the backend uses: it takes commands with the keys that decide where they go, and returns the answers, with an
exception in place of each one that is missing. It is a `Node` (node.py), one server and its idle connections, or a
`Cluster` (cluster.py), which finds the node of each slot. connections.py and urls.py make a router from a
client of the user's or from a URL.
"""
