"""The same work on the bare loop, on the engine and on other libraries: `python -m benchmarks.compare`, `make bench`.

| file | holds |
|---|---|
| `side.py` | what a library is asked to do |
| `bare_side.py`, `engine_side.py`, `benchmarks/peers/*.py` | one library each |
| `server.py` | the model over HTTP, in a process of its own |
| `measure.py` | one measurement in a fresh process |
| `plan.py` | which measurements, of which size, how often |
| `__main__.py` | all of them, in rounds; writes the JSON, the plots and the page |
| `plots.py`, `chart.py`, `page.py` | pictures and tables, from the JSON |
"""
