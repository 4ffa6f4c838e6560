//! Variables: buffers and caches, which are settings here.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, fixed, global};

pub const ALL: &[Variable] = &[
    both("bulk_insert_buffer_size", Kind::Int { min: 0, max: i64::MAX }, "8388608", NO_EFFECT),
    both("join_buffer_size", Kind::Int { min: 128, max: i64::MAX }, "262144", NO_EFFECT),
    global("key_buffer_size", Kind::Int { min: 0, max: i64::MAX }, "8388608", NO_EFFECT),
    both("max_heap_table_size", Kind::Int { min: 16384, max: i64::MAX }, "16777216", NO_EFFECT),
    both("myisam_sort_buffer_size", Kind::Int { min: 4096, max: i64::MAX }, "8388608", NO_EFFECT),
    both("preload_buffer_size", Kind::Int { min: 1024, max: 1073741824 }, "32768", NO_EFFECT),
    both("query_alloc_block_size", Kind::Int { min: 1024, max: 4294967295 }, "8192", NO_EFFECT),
    both("query_prealloc_size", Kind::Int { min: 8192, max: i64::MAX }, "8192", NO_EFFECT),
    both("read_buffer_size", Kind::Int { min: 8192, max: 2147479552 }, "131072", NO_EFFECT),
    both("read_rnd_buffer_size", Kind::Int { min: 1, max: 2147483647 }, "262144", NO_EFFECT),
    both("sort_buffer_size", Kind::Int { min: 32768, max: i64::MAX }, "262144", NO_EFFECT),
    global("table_definition_cache", Kind::Int { min: 400, max: 524288 }, "2000", NO_EFFECT),
    global("table_open_cache", Kind::Int { min: 1, max: 524288 }, "4000", NO_EFFECT),
    fixed("table_open_cache_instances", Kind::Int { min: 1, max: 64 }, "1", NO_EFFECT),
    global("thread_cache_size", Kind::Int { min: 0, max: 16384 }, "0", NO_EFFECT),
    fixed("thread_stack", Kind::Int { min: 131072, max: i64::MAX }, "1048576", NO_EFFECT),
    both("tmp_table_size", Kind::Int { min: 1024, max: i64::MAX }, "16777216", NO_EFFECT),
];
