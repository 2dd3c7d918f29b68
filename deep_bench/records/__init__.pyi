from .gathering import gather as gather
from .result import Figure as Figure
from .result import Result as Result
from .results import Refused as Refused
from .results import Results as Results
