"""One engine in process, without sockets: how fast it is, and how fast it could be here.

What needs torch is imported when the command runs, and not before: who sends requests needs none of it.
"""
