"""HTTP over pipelines: a web process that never imports torch, and a worker process that never opens the database.

queue.py       the jobs, in SQLite: every state that a job can be in, and each way from one to the next
results.py     the data folder: pictures that come in and go out, files first and the row last
supervisor.py  starts the worker, hands it batches, restarts it when it dies or hangs
worker.py      the other process: runs batches, tells what happens; models.py and batch.py are its hands
cards.py       what the worker says of every model, so that the web process can check a request without torch
wishes.py      a request as one form for all faces, checked against the card of its model
hub.py         who listens to which job: events that are kept, progress and previews that are not
safety.py      Host, Origin, token, sizes: what is refused before anything is read
openai.py  a1111.py  api.py   three faces on one queue; each only translates
app.py         all of it as one application
"""
