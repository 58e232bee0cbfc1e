"""How many workers a service needs: from measured times to throughput, waiting and cost. Nothing here imports torch.

measured.py  what was measured of a model on a machine, in a file that can be read and edited
queueing.py  formulas: how long work waits for one of so many workers
events.py    the same by playing it through, for what the formulas do not know: batches, percentiles
forecast.py  both together: a row for each number of workers, and the smallest that keeps a promise
probing.py   measures a model on this machine
"""
