"""Libraries that are built on torch, run on ndgrad and compared with values written by torch: `make test-ecosystem`.

    versions.txt         pinned versions
    tiny_models, cases   models of transformers, from config classes
    model_values         forward, gradients, a step, generate, saving and loading of each
    library_programs     Trainer, pipelines, peft, accelerate, lightning, torch_geometric
    library_tests        libraries' own tests, from their source distributions
    __main__             environments, runs, and the table of docs/what-runs.md

Nothing here is collected by pytest, since it needs the libraries. Nothing of the libraries is kept in this repository.
"""
