"""The pages: `/inbox`, where people decide, and `/executions/{id}`, what became of an execution.

Plain HTML, CSS and ES modules beside this file, sent as they are: there is no build step, and nothing is fetched but
from the worker itself. A page is a client of the API like any other, so it may do what any client may, and no more.
"""
