"""The declarations of the procedures: one module per procedure, named as in SQL, without its effect.

To add a procedure:

1. Here, `x.py`: the request, a frozen dataclass with `parameter()` fields, and the result, a frozen dataclass with `column()` fields.
`pause_tiering.py` is a short one to copy. `base.py` explains the class attributes: name, comment, required privilege, threads.
2. `tiering/coordinator/calls/x.py`: the effect, a function `x(parts, request)` that returns the result.

3. `tiering/client/procedure_methods.py`: a line for the method of the Python client; `sql_examples/`: an example.

`sys` in SQL, the calls of programs, the check of privileges, idempotency keys, `CALL sys.help` and the reference pages follow from the
declaration. `tests/test_house.py` compares the two folders.

Other modules:
- `base.py`: the base classes, and results that several procedures share.
- `registry.py`: finds the declarations.
- `arguments.py`: makes a request from the arguments of a CALL.
"""
