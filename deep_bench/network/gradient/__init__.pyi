from .backward import differentiate as differentiate
from .backward import gradient_name as gradient_name
