"""Settings as they are shown to others."""
from ptqlab.report.settings import portable


def test_folders_of_the_machine_become_names():
    """Absolute paths of any system lose their folders, at any depth; relative ones and other values stay."""
    given = {"onnx_model": "/data/nets/net.onnx", "more": ["C:\\nets\\net.onnx", "./net.onnx", 3, None],
             "nested": {"working_dir": "/data/out"}, "rate": 0.5}
    assert portable(given) == {"onnx_model": "net.onnx", "more": ["net.onnx", "./net.onnx", 3, None],
                               "nested": {"working_dir": "out"}, "rate": 0.5}
