from .contents import Report as Report
from .contents import report as report
from .writing import write as write
