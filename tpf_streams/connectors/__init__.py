"""Where pipelines meet files: object ingest, object publish, and the CSV codec between them.

Everything here is synchronous and streams: memory does not grow with the size of a file. The engine calls it from a
worker thread.

- `filesystem_source` lists objects and gives each its identity; `hashed_file` reads one and hashes what it read.
- `csv_records` finds where records begin and end, on bytes; `csv_reader` makes rows of them; `amount` reads money.
- `csv_writer` turns rows into bytes; `filesystem_publish` puts bytes under a name that `name_owners` keeps.
"""
