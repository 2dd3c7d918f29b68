from .record import InferenceRecord as InferenceRecord
from .record import load_inference as load_inference
from .running import run as run
from .settings import Settings as Settings
from .system import Library as Library
from .system import System as System
from .system import Work as Work
