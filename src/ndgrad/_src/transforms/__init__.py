"""Function transforms: grad, vjp, jvp, vmap, Jacobians, Taylor mode, sparse derivatives."""
