"""The groups of names in large namespaces: one per task that users look for, such as creation or reductions.

A `Task` declares its names, and the source files whose functions all belong to it. A file is given by the end of its path:
`functions/join` or `nn/modules/conv`. The search for the task of a name has a fixed order: the full name, the kind of the value
(a dtype, a constant), the name, the name without the underscore of in-place functions, and the source file. A
name without a task is in the group `other`. A test fails if that group exists.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import numpy
from docs.reference_pages.entries import source_of
from docs.reference_pages.namespaces import Namespace, get

import ndgrad


@dataclass(frozen=True)
class Task:
    """One group: the last part of its address, its title, a sentence about it, and its members."""

    slug: str
    title: str
    about: str
    names: str = ""
    files: str = ""
    #: Kinds of values: dtype, constant.
    kinds: str = ""


#: Tensors and arrays: ndgrad, Tensor, NumPy's namespace, Array, and the array API.
ARRAYS = [
    Task(
        "creation", "Creation", "Tensors from data, filled with a value, or with a regular sequence.",
        "Tensor Array frombuffer fromfile fromfunction fromiter fromregex fromstring genfromtxt from_dlpack to_dlpack from_numpy complex polar "
        "array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray arange empty empty_like eye full full_like geomspace "
        "identity linspace loadtxt logspace ones ones_like require tri zeros zeros_like copy meshgrid indices mgrid ogrid vander clone",
        "functions/creation functions/data array_api/creation",
    ),
    Task(
        "indexing", "Indexing, selecting and scattering", "Elements by index, by mask or by condition, and writes to them.",
        "where choose compress extract select piecewise put put_along_axis putmask place take take_along_axis take_along_dim nonzero "
        "argwhere flatnonzero fill_diagonal ix_ c_ r_ s_ index_exp ndindex newaxis unravel_index ravel_multi_index diag_indices "
        "diag_indices_from mask_indices tril_indices tril_indices_from triu_indices triu_indices_from copyto Tensor.select Array.select ndgrad.select "
        "select_scatter slice_scatter narrow embedding segment_reduce fill zero_ copy_ set_ fill_diagonal_ flat",
        "functions/gather functions/slices functions/nonzero functions/fill",
    ),
    Task(
        "joining", "Joining and splitting", "Several tensors made one, and one tensor cut in parts.",
        "array_split append block insert delete pad unstack unbind as_strided unfold trim_zeros vsplit hsplit dsplit split concat stack "
        "cartesian_prod combinations block_diag repeat tile repeat_interleave resize",
        "functions/join functions/split numpy/joining",
    ),
    Task(
        "shapes", "Shapes, order of dimensions and views", "The same elements in another shape or order.",
        "reshape ravel flatten squeeze expand_dims transpose permute_dims matrix_transpose moveaxis rollaxis swapaxes flip fliplr flipud roll "
        "rot90 broadcast_arrays broadcast_to broadcast_shapes atleast_1d atleast_2d atleast_3d T H mT mH view contiguous "
        "diag diagflat diagonal diag_embed tril triu trace shape ndim size",
        "functions/shape functions/rearrange functions/triangle",
    ),
    Task(
        "copies", "Views as copies", "Functions that return a copy where the function without `_copy` or `unsafe_` returns a view.",
        "", "functions/copies",
    ),
    Task(
        "arithmetic", "Arithmetic", "Sums, products, quotients and remainders, element by element.",
        "add sub subtract rsub mul multiply div divide true_divide floor_divide divmod fmod mod modf remainder reciprocal neg negative positive abs "
        "absolute fabs addcdiv addcmul lerp heaviside gcd lcm ldexp frexp frac copysign nextafter spacing",
    ),
    Task(
        "powers", "Powers, exponentials and logarithms", "Roots, powers, exponentials, logarithms, and sigmoids.",
        "pow power float_power square sqrt rsqrt cbrt exp exp2 expm1 log log10 log1p log2 logaddexp logaddexp2 logit sigmoid xlogy hypot",
    ),
    Task(
        "trigonometry", "Trigonometric and hyperbolic functions", "Sines, tangents, their inverses, and conversions of angles.",
        "acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cos cosh deg2rad degrees rad2deg radians sin "
        "sinh tan tanh sinc unwrap",
    ),
    Task(
        "rounding", "Rounding, limits and signs", "Rounding, clipping, and replacing values out of range.",
        "ceil floor fix rint round around trunc clamp clamp_max clamp_min clip nan_to_num sign sgn signbit maximum minimum fmax fmin threshold "
        "fake_quantize_per_channel_affine fake_quantize_per_tensor_affine",
    ),
    Task(
        "comparison", "Comparison and logic", "Tests of elements and of whole tensors, and logic on their results.",
        "allclose isclose array_equal array_equiv eq equal ne not_equal ge greater_equal gt greater le less_equal lt less isfinite isinf isnan isnat "
        "isneginf isposinf isreal iscomplex logical_and logical_not logical_or logical_xor is_nonzero is_same_size",
        "functions/comparison",
    ),
    Task(
        "bits", "Bits and integers", "Bitwise functions, and integers as bits.",
        "bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor invert left_shift "
        "right_shift packbits unpackbits base_repr binary_repr",
    ),
    Task(
        "complex-numbers", "Complex numbers", "Real and imaginary parts, conjugates and angles.",
        "angle conj conjugate conj_physical imag real real_if_close is_conj is_neg resolve_conj resolve_neg view_as_complex view_as_real "
        "iscomplexobj isrealobj sort_complex",
    ),
    Task(
        "special-functions", "Special functions", "The error function, gamma and Bessel functions; more are in `ndgrad.special`.",
        "digamma erf erfc erfinv i0 igamma igammac lgamma mvlgamma polygamma",
    ),
    Task(
        "reductions", "Reductions", "Sums, means, extrema and other results over dimensions.",
        "all any amax amin max min aminmax argmax argmin average count_nonzero mean nanmean nansum prod sum ptp nanargmax nanargmin nanmax nanmin "
        "nanprod logsumexp softmax log_softmax std std_mean var var_mean nanstd nanvar sum_to_size apply_along_axis apply_over_axes",
        "functions/reduce functions/extremum",
    ),
    Task(
        "statistics", "Statistics and histograms", "Medians, quantiles, covariances, and counts in bins.",
        "bincount corrcoef cov digitize bucketize histc histogram histogram2d histogram_bin_edges histogramdd median mode nanmedian nanpercentile nanquantile "
        "percentile quantile",
    ),
    Task(
        "cumulative", "Cumulative sums, differences and integrals", "Running sums and products, finite differences, integrals and interpolation.",
        "cumulative_prod cumulative_sum nancumprod nancumsum diff ediff1d gradient trapezoid interp cumprod cumsum", "functions/scan",
    ),
    Task(
        "sorting", "Sorting, searching and sets", "Sorted values and their indices, positions in sorted values, and unique values.",
        "partition sort unique_all unique_counts unique_inverse unique_values", "functions/order numpy/sorting array_api/searching",
    ),
    Task(
        "products", "Products of matrices and tensors", "Dot products, matrix products, Einstein sums, and products with sums.",
        "einsum einsum_path tensordot matmul matvec vecdot vecmat cross dot inner kron outer vdot", "functions/product numpy/products",
    ),
    Task(
        "linear-algebra", "Linear algebra", "Decompositions, solutions of linear systems, determinants and norms; more are in `linalg`.",
        "", "functions/decomposition functions/linalg functions/low_rank functions/matrix functions/reflections functions/norm",
    ),
    Task("polynomials", "Polynomials", "Values, roots, fits and arithmetic of polynomials.", "", "numpy/polynomials"),
    Task(
        "signal", "Signals and windows", "Short-time Fourier transforms, convolution, correlation, and window functions.",
        "bartlett blackman hamming hanning kaiser convolve correlate", "functions/spectrum functions/windows",
    ),
    Task(
        "random", "Random numbers", "Samples, and the generators that they come from.",
        "Generator default_generator multinomial seed", "functions/random arrays/generator",
    ),
    Task(
        "networks", "Functions of networks", "Activations, layers, dropout and losses that torch also has in its main namespace; more are in `nn.functional`.",
        "celu hardshrink relu selu embedding_renorm_", "nn/functional/*",
    ),
    Task(
        "gradients", "Gradients and the graph", "Derivatives of a tensor, recording, hooks and transforms.",
        "grad grad_dtype grad_fn backward requires_grad requires_grad_ retain_grad retains_grad register_hook register_post_accumulate_grad_hook "
        "is_leaf output_nr detach detach_ is_inference vmap cond while_loop volatile tensor data",
        "core/grad_mode debug/anomaly transforms/transforms",
    ),
    Task(
        "compile", "Compiling, lifting and explaining", "Native code from functions, gradients of NumPy functions, and explanations of gradients.",
        "compile lift explain install_as_torch uninstall_as_torch ScriptFunction ScriptModule vectorize",
    ),
    Task(
        "data-types", "Data types", "Types of elements, their limits and rules of promotion.",
        "can_cast finfo iinfo promote_types result_type common_type min_scalar_type mintypecode isdtype issubdtype typename ScalarType DeviceObjType TensorType sctypeDict typecodes is_complex "
        "is_floating_point is_signed isscalar ndgrad.dtype numpy.dtype set_default_dtype get_default_dtype set_default_tensor_type isfortran iterable",
        "", "dtype",
    ),
    Task(
        "conversion", "Conversion", "Other dtypes, other devices, NumPy arrays and Python numbers.",
        "astype to type type_as item tolist numpy cpu cuda to_device tobytes tofile as_subclass bfloat16 bool byte cdouble cfloat chalf char double "
        "float half int long short Tensor.array Array.array",
    ),
    Task(
        "attributes", "Attributes and storage", "Shape, dtype, device, memory, and what a tensor is.",
        "numel nelement ndimension dim stride storage storage_offset untyped_storage data_ptr element_size itemsize nbytes device dtype layout get_device "
        "is_contiguous is_cpu is_cuda is_meta is_mkldnn is_mps is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu is_numpy_type tensor_type "
        "is_tensor is_storage base flags strides setflags pin_memory is_pinned is_set_to is_shared share_memory_ dim_order record_stream resize_ resize_as_ "
        "may_share_memory shares_memory ndarray TypedStorage UntypedStorage Size apply_ map_ map2_",
    ),
    Task(
        "named-tensors", "Named and padded dimensions", "Names of dimensions, and tensors of unequal lengths.",
        "names", "functions/names functions/nested",
    ),
    Task("sparse", "Sparse tensors", "Tensors that store only their nonzero elements; more are in `sparse`.", "", "functions/sparse functions/sparse_parts"),
    Task(
        "files", "Files and printing", "Saving, loading, and text of arrays.",
        "load save savetxt savez savez_compressed PyTorchFileReader array2string array_repr array_str format_float_positional format_float_scientific "
        "printoptions get_printoptions set_printoptions info show_config show_runtime get_include",
    ),
    Task(
        "settings", "Devices and settings", "Default devices, threads, determinism, precision and memory.",
        "ndgrad.device get_default_device set_default_device get_num_interop_threads get_num_threads set_num_interop_threads set_num_threads Event Stream Future "
        "get_retained_memory set_retained_memory OutOfMemoryError errstate geterr geterrcall seterr seterrcall getbufsize setbufsize ndgrad.layout ndgrad.memory_format",
        "tensor/settings",
    ),
    Task(
        "symbolic", "Sizes that may be symbolic", "torch's classes of symbolic sizes, and functions of numbers that may be symbolic there.",
        "", "tensor/symbolic_numbers",
    ),
    Task(
        "mixed-precision", "Mixed precision", "Ops in lower precision, chosen automatically, and scaled losses.",
        "", "amp/autocast_mode amp/grad_scaler",
    ),
    Task(
        "subclasses", "Subclasses and dispatch", "Hooks of tensor subclasses and of `__torch_function__`.",
        "checked_values constant_alike from_twin_gradient graph_twin keeps_saved made_alike own_dispatch run_op take_result take_whole to_twin_gradient "
        "DisableTorchFunction DisableTorchFunctionSubclass",
    ),
    Task(
        "dates", "Dates and business days", "Calendars of NumPy.",
        "busday_count busday_offset busdaycalendar datetime_as_string datetime_data is_busday",
    ),
    Task("constants", "Constants", "Numbers, layouts and memory formats.", "little_endian True_ False_", "", "constant"),
]  # fmt: skip

#: Layers as classes: nn and nn.modules.
LAYERS = [
    Task("containers", "Modules, containers and parameters", "The base class, modules of modules, and parameters.", "Flatten Unflatten Identity DataParallel",
         "nn/modules/module nn/modules/container nn/parameter"),
    Task("linear", "Linear layers", "Affine and bilinear maps.", "", "nn/modules/linear"),
    Task("convolution", "Convolution", "Convolutions, their transposes, and windows.", "", "nn/modules/conv nn/modules/fold"),
    Task("pooling", "Pooling", "Maxima, means and norms of windows.", "", "nn/modules/pooling"),
    Task("padding", "Padding", "Borders around a signal, an image or a volume.", "", "nn/modules/padding"),
    Task("activations", "Activations", "Nonlinear functions, softmax among them.", "", "nn/modules/activation"),
    Task("normalization", "Normalisation", "Batch, layer, group and instance norms.", "",
         "nn/modules/batchnorm nn/modules/instancenorm nn/modules/normalization nn/modules/sync_batchnorm"),
    Task("recurrent", "Recurrent layers", "RNN, LSTM and GRU, and their cells.", "", "nn/modules/rnn"),
    Task("transformers", "Transformers and attention", "Attention, encoders and decoders.", "", "nn/modules/transformer nn/modules/attention"),
    Task("embeddings", "Embeddings", "Rows of a table, by index.", "", "nn/modules/sparse"),
    Task("dropout", "Dropout", "Elements or channels set to zero at random.", "", "nn/modules/dropout"),
    Task("losses", "Losses and distances", "Distances between predictions and targets.", "",
         "nn/modules/loss nn/modules/distance nn/modules/adaptive nn/modules/linear_cross_entropy_options"),
    Task("vision", "Images", "Other resolutions, and channels moved into pixels.", "", "nn/modules/upsampling nn/modules/pixelshuffle nn/modules/channelshuffle"),
    Task("lazy", "Lazy layers", "Layers that take their sizes from the first input.", "", "nn/modules/lazy"),
]  # fmt: skip

#: Layers as functions: nn.functional.
FUNCTIONAL = [
    Task("convolution", "Convolution", "Convolutions, their transposes, and windows.", "", "functional/convolution"),
    Task("pooling", "Pooling", "Maxima, means and norms of windows.", "", "functional/pooling functional/fractional"),
    Task("activations", "Activations", "Nonlinear functions, softmax among them.", "", "functional/activation"),
    Task("attention", "Attention", "Scaled dot products of queries and keys.", "", "functional/attention"),
    Task("linear", "Linear maps and embeddings", "Affine and bilinear maps, and rows of a table.", "", "functional/affine functional/grouped functional/lookup"),
    Task("normalization", "Normalisation", "Batch, layer, group and instance norms.", "normalize", "functional/norm"),
    Task("dropout", "Dropout", "Elements or channels set to zero at random.", "", "functional/regularization"),
    Task("losses", "Losses", "Distances between predictions and targets.",
         "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss triplet_margin_with_distance_loss",
         "functional/classification functional/regression functional/alignment"),
    Task("distances", "Distances", "Distances and similarities of vectors.", "pdist cosine_similarity pairwise_distance"),
    Task("vision", "Images and padding", "Other resolutions, sampling on a grid, borders, and channels moved into pixels.", "", "functional/vision functional/padding"),
]  # fmt: skip

SCIPY_LINALG = [
    Task("systems", "Systems and inverses", "Solutions of linear systems, inverses, determinants and norms.", "", "linalg/systems"),
    Task("decompositions", "Decompositions", "Triangular, orthogonal and polar factors.", "", "linalg/factors"),
    Task("eigenvalues", "Eigenvalues and singular values", "Spectra of matrices.", "", "linalg/spectral"),
    Task("functions", "Functions of matrices", "Exponentials, logarithms, roots and sines of matrices.", "", "linalg/functions"),
    Task("equations", "Matrix equations", "Sylvester, Lyapunov and Riccati equations.", "", "linalg/equations"),
    Task("special-matrices", "Special matrices", "Matrices with a structure, such as Toeplitz.", "", "linalg/structured"),
]  # fmt: skip

#: Functions of mathematical physics: scipy.special, the array API's extension, and torch's special.
SPECIAL = [
    Task(
        "gamma", "Gamma, beta and factorials", "Gamma and beta functions, their logarithms, incomplete forms and inverses.",
        "beta betainc betaincc betainccinv betaincinv betaln binom comb digamma factorial gamma gammainc gammaincc gammainccinv gammaincinv gammaln gammasgn "
        "loggamma multigammaln perm poch polygamma psi rgamma zeta",
    ),
    Task(
        "error-functions", "Error functions and Fresnel integrals", "The error function, its relatives and inverses.",
        "dawsn erf erfc erfcinv erfcx erfi erfinv fresnel voigt_profile wofz",
    ),
    Task(
        "bessel", "Bessel, Airy, Kelvin and Struve functions", "Bessel functions of every kind, their derivatives and integrals.",
        "airy airy_ai bei beip ber berp h1vp h2vp hankel1 hankel1e hankel2 hankel2e i0 i0e i1 i1e it2i0k0 it2j0y0 it2struve0 itairy iti0k0 itj0y0 itmodstruve0 "
        "itstruve0 iv ive ivp j0 j1 jn jv jve jvp k0 k0e k1 k1e kei keip kelvin ker kerp kn kv kve kvp modstruve spherical_in spherical_jn spherical_kn "
        "spherical_yn struve y0 y1 yn yv yve yvp bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
        "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0",
    ),
    Task(
        "statistics", "Distribution functions", "Cumulative distribution functions and their inverses.",
        "bdtr bdtrc bdtri chdtr chdtrc chdtri fdtr fdtrc fdtri gdtr gdtrc gdtria gdtrix log_ndtr nbdtr nbdtrc nbdtri ndtr ndtri ndtri_exp owens_t pdtr pdtrc pdtri "
        "stdtr stdtrit boxcox boxcox1p inv_boxcox inv_boxcox1p",
    ),
    Task(
        "information", "Entropies, losses and sigmoids", "Terms of entropies, robust losses, sigmoids and softmax.",
        "entr expit huber kl_div log_expit log_softmax logit logsumexp pseudo_huber rel_entr softmax softplus xlog1py xlogy",
    ),
    Task(
        "elliptic", "Elliptic and hypergeometric functions", "Elliptic integrals, hypergeometric and parabolic cylinder functions.",
        "agm ellipe ellipeinc ellipj ellipk ellipkinc ellipkm1 hyp0f1 hyp1f1 hyp2f1 hyperu pbdv pbvv pbwa",
    ),
    Task(
        "polynomials", "Orthogonal polynomials", "Values of Chebyshev, Hermite, Jacobi, Laguerre and Legendre polynomials.",
        "eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre eval_hermite eval_hermitenorm eval_jacobi eval_laguerre eval_legendre "
        "eval_sh_chebyt eval_sh_chebyu eval_sh_jacobi eval_sh_legendre lpmv chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
        "chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
        "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w",
    ),
    Task(
        "integrals", "Exponential and trigonometric integrals", "Integrals of exponentials and sines, and the functions of Lambert and Spence.",
        "exp1 expi expn lambertw shichi sici spence wrightomega",
    ),
    Task(
        "elementary", "Elementary functions", "Roots, powers and angles in degrees, precise where the plain formula is not.",
        "cbrt cosdg cosm1 cotdg exp10 exp2 expm1 exprel log1p powm1 radian round sinc sindg tandg",
    ),
]  # fmt: skip

DISTRIBUTIONS = [
    Task("base", "The base classes", "Classes from which distributions are made, and their constraints.",
         "Distribution ExponentialFamily Independent MixtureSameFamily TransformedDistribution biject_to transform_to kl_divergence register_kl"),
    Task("discrete", "Discrete distributions", "Counts, categories and coins.",
         "Bernoulli Binomial Categorical Geometric Multinomial NegativeBinomial OneHotCategorical OneHotCategoricalStraightThrough Poisson "
         "RelaxedBernoulli RelaxedOneHotCategorical ContinuousBernoulli"),
    Task("continuous", "Continuous distributions", "Densities of one number.",
         "Beta Cauchy Chi2 Exponential FisherSnedecor Gamma GeneralizedPareto Gumbel HalfCauchy HalfNormal InverseGamma Kumaraswamy Laplace LogNormal Normal Pareto "
         "StudentT Uniform VonMises Weibull"),
    Task("multivariate", "Multivariate distributions", "Densities of vectors and matrices.",
         "Dirichlet LKJCholesky LogisticNormal LowRankMultivariateNormal MultivariateNormal Wishart"),
    Task("transforms", "Transforms", "Invertible maps with their log determinants.", "identity_transform", "distributions/transforms distributions/composition"),
]  # fmt: skip

DISTRIBUTED = [
    Task("groups", "Process groups", "Start, end and queries of groups of processes.", "default_pg_timeout", "distributed/groups"),
    Task("collectives", "Collectives", "Reductions, gathers and broadcasts over all processes of a group.",
         "ReduceOp Work supports_complex all_gather all_gather_into_tensor all_gather_single all_reduce all_reduce_coalesced all_to_all all_to_all_single barrier "
         "broadcast gather monitored_barrier reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter"),
    Task("messages", "Messages between two processes", "Sends and receives.", "P2POp batch_isend_irecv irecv isend recv send"),
    Task("objects", "Python objects", "Collectives of any objects that pickle can write.", "", "distributed/objects"),
    Task("meshes", "Meshes and seeds", "Processes in a grid, and seeds that differ by process.", "DeviceMesh init_device_mesh manual_seed_per_rank"),
    Task("stores", "Stores", "Keys and values that processes share.", "", "distributed/stores"),
    Task("errors", "Errors", "Classes of errors.", "", "distributed/errors"),
]  # fmt: skip

SIGNAL = [
    Task("convolution", "Convolution", "Convolution and correlation.", "", "signal/convolution"),
    Task("filters", "Filters", "Linear filters and resampling.", "", "signal/filters"),
    Task("smoothing", "Smoothing and trends", "Medians, trends, envelopes and Fourier resampling.", "", "signal/smoothing"),
    Task("spectra", "Spectra", "Power spectra, spectrograms and coherence.", "", "signal/spectral"),
    Task("response", "Responses and forms of filters", "Frequency responses, and conversions between forms of filters.", "", "signal/response"),
    Task("waveforms", "Waveforms", "Chirps, pulses and sawtooth waves.", "", "signal/waveforms"),
]  # fmt: skip

#: Namespace -> its tasks. A namespace of more than `pages.LARGEST` names of its own must be here.
TASKS: dict[str, list[Task]] = {
    "ndgrad": ARRAYS,
    "ndgrad.Tensor": ARRAYS,
    "ndgrad.numpy": ARRAYS,
    "ndgrad.numpy.Array": ARRAYS,
    "ndgrad.array_api": ARRAYS,
    "ndgrad.nn": LAYERS,
    "ndgrad.nn.modules": LAYERS,
    "ndgrad.nn.functional": FUNCTIONAL,
    "ndgrad.scipy.linalg": SCIPY_LINALG,
    "ndgrad.scipy.special": SPECIAL,
    "ndgrad.array_api.special": SPECIAL,
    "ndgrad.special": SPECIAL,
    "ndgrad.scipy.signal": SIGNAL,
    "ndgrad.distributions": DISTRIBUTIONS,
    "ndgrad.distributed": DISTRIBUTED,
}
OTHER = Task("other", "Other", "Names without a task.")


def group_names(namespace: Namespace) -> dict[Task, list[str]]:
    """Return the tasks of a namespace in their declared order, each with its names, sorted."""
    tasks = TASKS[namespace.name]
    found: dict[Task, list[str]] = {task: [] for task in [*tasks, OTHER]}
    for name in namespace.names:
        found[task_of(namespace, name)].append(name)
    return {task: sorted(names, key=lambda n: (n.lower(), n)) for task, names in found.items() if names}


def task_of(namespace: Namespace, name: str) -> Task:
    """Return the task of a public name; `OTHER` if it has none."""
    names, files, kinds = _indices(namespace.name)
    value = get(namespace, name)
    last = namespace.name.rpartition(".")[2]
    for key, index in ((f"{last}.{name}", names), ("" if namespace.is_class else _kind_of(value), kinds), (name, names), (name.rstrip("_"), names)):
        if key in index:
            return index[key]
    place = source_of(value)
    path = "" if place is None else place[0].removesuffix(".py").removesuffix("/__init__")
    for end, task in files.items():
        if path.endswith(f"/{end}") or (end.endswith("/*") and f"/{end[:-1]}" in path):
            return task
    return OTHER


@functools.cache
def _indices(namespace: str) -> tuple[dict[str, Task], dict[str, Task], dict[str, Task]]:
    """Return name -> task, end of a file's path -> task, kind -> task."""
    tasks = TASKS[namespace]
    found = tuple({key: task for task in tasks for key in getattr(task, what).split()} for what in ("names", "files", "kinds"))
    return found[0], found[1], found[2]


def _kind_of(value: Any) -> str:
    if isinstance(value, (ndgrad.dtype, numpy.dtype)) or (inspect.isclass(value) and issubclass(value, numpy.generic)):
        return "dtype"
    if isinstance(value, type(ndgrad.FloatTensor)) and value is not ndgrad.Tensor:
        return "dtype"  # torch's classes of tensors of one dtype
    return "constant" if isinstance(value, (bool, int, float, ndgrad.layout, ndgrad.memory_format)) else ""
