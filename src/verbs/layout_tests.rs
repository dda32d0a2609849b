//! The layouts that this room touches, compared with the installed header by a C program.
//!
//! The structs come from the header that the FFI crate carries; the library on a node comes from
//! another rdma-core. A difference would be memory corruption, so it is looked for.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::process::Command;

use ibverbs_sys as ffi;

/// `(C expression, what Rust has)` for the size of a struct and the offsets of fields in it.
macro_rules! layout {
    ($table:ident: $( $c:literal = $rust:ty { $( $field:ident ),* } )*) => {
        $(
            $table.push((format!("sizeof(struct {})", $c), size_of::<$rust>()));
            $( $table.push((
                format!("offsetof(struct {}, {})", $c, stringify!($field)),
                offset_of!($rust, $field),
            )); )*
        )*
    };
}

fn rust_layouts() -> Vec<(String, usize)> {
    let mut table = Vec::new();
    layout! { table:
        "ibv_context" = ffi::ibv_context { device, ops, cmd_fd, async_fd }
        "ibv_device" = ffi::ibv_device { node_type, transport_type, name }
        "ibv_context_ops" = ffi::ibv_context_ops { poll_cq, req_notify_cq, post_send, post_recv }
        "ibv_device_attr" = ffi::ibv_device_attr { max_mr_size, max_qp, max_qp_wr, max_cqe }
        "ibv_qp_init_attr" = ffi::ibv_qp_init_attr {
            send_cq, recv_cq, srq, cap, qp_type, sq_sig_all
        }
        "ibv_qp_cap" = ffi::ibv_qp_cap {
            max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data
        }
        "ibv_qp_attr" = ffi::ibv_qp_attr {
            qp_state, path_mtu, rq_psn, sq_psn, dest_qp_num, qp_access_flags, ah_attr,
            pkey_index, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
            retry_cnt, rnr_retry
        }
        "ibv_ah_attr" = ffi::ibv_ah_attr { grh, dlid, sl, is_global, port_num }
        "ibv_global_route" = ffi::ibv_global_route {
            dgid, flow_label, sgid_index, hop_limit, traffic_class
        }
        "ibv_sge" = ffi::ibv_sge { addr, length, lkey }
        "ibv_send_wr" = ffi::ibv_send_wr {
            wr_id, next, sg_list, num_sge, opcode, send_flags, wr
        }
        "ibv_wc" = ffi::ibv_wc { imm_data, qp_num, src_qp, wc_flags }
        "ibv_comp_channel" = ffi::ibv_comp_channel { fd }
        "ibv_mr" = ffi::ibv_mr { lkey, rkey }
    }
    // Not its size: it grew since, but the symbol that we call writes the first version of it, up
    // to `flags`.
    for (name, offset) in [
        ("state", offset_of!(ffi::ibv_port_attr, state)),
        ("active_mtu", offset_of!(ffi::ibv_port_attr, active_mtu)),
        ("max_msg_sz", offset_of!(ffi::ibv_port_attr, max_msg_sz)),
        ("lid", offset_of!(ffi::ibv_port_attr, lid)),
        ("link_layer", offset_of!(ffi::ibv_port_attr, link_layer)),
        ("flags", offset_of!(ffi::ibv_port_attr, flags)),
    ] {
        table.push((format!("offsetof(struct ibv_port_attr, {name})"), offset));
    }
    // `qp_num` by its place in the struct; the rest of it belongs to the library.
    let at = offset_of!(ffi::ibv_qp, qp_num);
    table.push(("offsetof(struct ibv_qp, qp_num)".to_owned(), at));
    type Rdma = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1;
    let wr = offset_of!(ffi::ibv_send_wr, wr);
    for (name, offset) in [
        ("remote_addr", offset_of!(Rdma, remote_addr)),
        ("rkey", offset_of!(Rdma, rkey)),
    ] {
        table.push((
            format!("offsetof(struct ibv_send_wr, wr.rdma.{name})"),
            wr + offset,
        ));
    }
    table
}

/// The same expressions as the installed header has them; `None` without compiler or header.
fn header_layouts(expressions: &[String]) -> Option<Vec<usize>> {
    let mut program = "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
                       int main(void) {\n"
        .to_owned();
    for expression in expressions {
        writeln!(program, "  printf(\"%zu\\n\", (size_t){expression});").expect("a string");
    }
    program.push_str("  return 0;\n}\n");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).expect("the program is written");
    let compiler = Command::new("cc")
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output()
        .ok()?;
    if !compiler.status.success() {
        let text = String::from_utf8_lossy(&compiler.stderr).into_owned();
        assert!(text.contains("infiniband/verbs.h: No such file"), "{text}");
        return None;
    }
    let output = Command::new(&binary).output().expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("numbers");
    Some(
        text.lines()
            .map(|line| line.parse().expect("a number"))
            .collect(),
    )
}

#[test]
fn layouts_are_those_of_the_installed_header() {
    let rust = rust_layouts();
    let expressions: Vec<String> = rust.iter().map(|(c, _)| c.clone()).collect();
    let Some(header) = header_layouts(&expressions) else {
        eprintln!("SKIPPED: no C compiler or no infiniband/verbs.h (package libibverbs-dev)");
        return;
    };
    assert_eq!(header.len(), rust.len());
    for ((expression, here), there) in rust.into_iter().zip(header) {
        assert_eq!(here, there, "{expression}: ours and the installed header's");
    }
}

/// The shared libraries that this very test program, which holds all of the crate, asks for.
#[test]
fn libibverbs_is_not_linked() {
    let program = std::env::current_exe().expect("this program");
    let output = match Command::new("readelf").arg("-d").arg(&program).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: readelf is missing (package binutils): {error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let needed: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .collect();
    assert!(
        needed.iter().any(|line| line.contains("libc.so")),
        "no libc? {text}"
    );
    assert!(
        !needed.iter().any(|line| line.contains("ibverbs")),
        "{needed:#?}"
    );
}
