"""Search in what was said and thought. Others use `results` only; who words a search of
its own (the admin, the broadcasts) takes conditions and time limit from `query`.
"""
