"""HTTP over pipelines: a web process that never imports torch, and a worker process that never opens the database.

queue.py       the jobs, in SQLite: every state that a job can be in, and each way from one to the next
results.py     the data folder: pictures that come in and go out, files first and the row last
workers.py     one worker as the web process sees it: started, fed, heard, replaced when it dies or hangs
supervisor.py  all of them, one a device
wishes.py      a request as one form for all faces, checked against what the worker said of its model
hub.py         who listens to which job: events that are kept, progress and previews that are not
safety.py      Host, Origin, token, sizes: what is refused before anything is read
faces/         native, openai, a1111: three faces on one queue; each only translates
worker/        the other process: models, batches, boundaries
studio/        the page: modules as they are served, one a view; dom.js makes elements, store.js hears the server
app.py         all of it as one application; running.py its socket and its end
"""
