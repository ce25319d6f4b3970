"""Results: made by a run or read from files, they are the same. Nothing here loads PyTorch."""

from favano.results.folder_check import check_comparison as check_comparison
from favano.results.folder_check import check_content as check_content
from favano.results.folder_check import check_folder as check_folder
from favano.results.folder_check import check_writable as check_writable
from favano.results.folder_check import is_finished as is_finished
from favano.results.folder_check import is_longer as is_longer
from favano.results.reading import collect as collect
from favano.results.reading import earlier_results as earlier_results
from favano.results.reading import load as load
from favano.results.reading import read_result as read_result
from favano.results.reading import result_folders as result_folders
from favano.results.reading import run_folders as run_folders
from favano.results.result import Comparison as Comparison
from favano.results.result import Interrupted as Interrupted
from favano.results.result import Result as Result
from favano.results.result import write_result as write_result
