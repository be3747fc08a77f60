"""The integer operators of the BPU: one explicit table."""
from ptqlab.ops.integer.boundary import BOUNDARY_OPS
from ptqlab.ops.integer.compare import COMPARE_OPS
from ptqlab.ops.integer.conv import CONV_OPS
from ptqlab.ops.integer.elementwise import ELEMENTWISE_OPS
from ptqlab.ops.integer.grid_sample import GRID_SAMPLE_OPS
from ptqlab.ops.integer.image import IMAGE_OPS
from ptqlab.ops.integer.matmul import MATMUL_OPS
from ptqlab.ops.integer.norm import NORM_OPS
from ptqlab.ops.integer.pool import POOL_OPS
from ptqlab.ops.integer.products import PRODUCT_OPS
from ptqlab.ops.integer.reduce import REDUCE_OPS
from ptqlab.ops.integer.resize import RESIZE_OPS
from ptqlab.ops.integer.select import SELECT_OPS
from ptqlab.ops.integer.softmax import SOFTMAX_OPS
from ptqlab.ops.integer.spec import DOMAIN, DOMAIN_VERSION, OPSET, IntegerOp
from ptqlab.ops.integer.tables import TABLE_OPS
from ptqlab.ops.integer.transposed import TRANSPOSED_OPS

INTEGER_OPS: dict[str, IntegerOp] = {
    op.name: op
    for op in (
        *BOUNDARY_OPS,
        *CONV_OPS,
        *TRANSPOSED_OPS,
        *MATMUL_OPS,
        *PRODUCT_OPS,
        *ELEMENTWISE_OPS,
        *SELECT_OPS,
        *COMPARE_OPS,
        *RESIZE_OPS,
        *GRID_SAMPLE_OPS,
        *REDUCE_OPS,
        *POOL_OPS,
        *TABLE_OPS,
        *SOFTMAX_OPS,
        *NORM_OPS,
        *IMAGE_OPS,
    )
}

__all__ = ["DOMAIN", "DOMAIN_VERSION", "INTEGER_OPS", "OPSET", "IntegerOp"]
