from . import distributed as distributed
from . import network as network
from . import operators as operators
from . import training as training
from .graph import Network as Network
from .graph import load as load
from .network.result import Result as Result
from .network.run import run as run
from .operators.case import Case as Case
from .operators.operator import Operator as Operator
from .registry import communicators as communicators
from .registry import datasets as datasets
from .registry import distributed_optimizers as distributed_optimizers
from .registry import frameworks as frameworks
from .registry import networks as networks
from .registry import optimizers as optimizers
from .registry import samplers as samplers
from .registry import suites as suites
from .tensor import TensorSpec as TensorSpec
from .training.timeline.live import timeline as timeline
from .training.trainer import Trainer as Trainer

__version__: str
