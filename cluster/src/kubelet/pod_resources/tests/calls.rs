//! What goes wrong between the kubelet and us, and what comes of it.

use std::time::Duration;

use prost::Message as _;
use tonic::Code;

use super::super::{PodResourcesError, v1};
use super::server::{Reply, Server, client_with, one_container};

/// A kubelet with one GPU, given to one Pod.
fn one_gpu(call: &str, id: &str) -> Reply {
    let gpu = v1::ContainerDevices {
        resource_name: "nvidia.com/gpu".to_owned(),
        device_ids: vec![id.to_owned()],
        topology: None,
    };
    match call {
        "GetAllocatableResources" => {
            Reply::of(&v1::AllocatableResourcesResponse { devices: vec![gpu], ..Default::default() })
        }
        "List" => Reply::of(&one_container(v1::ContainerResources {
            name: "main".to_owned(),
            devices: vec![gpu],
            ..Default::default()
        })),
        _ => Reply::Status(Code::Unimplemented, "unknown method Get"),
    }
}

async fn reason_of(server: &Server) -> &'static str {
    failure_of(server).await.reason()
}

async fn failure_of(server: &Server) -> PodResourcesError {
    server.client().read().await.expect_err("no answer")
}

async fn impatient(server: &Server) -> PodResourcesError {
    server.impatient_client().read().await.expect_err("no answer")
}

#[tokio::test]
async fn a_kubelet_that_answers() {
    let server = Server::answering(|call| one_gpu(call, "GPU-1"));
    let answer = server.client().read().await.unwrap();
    assert_eq!(answer.oddities, []);
    assert_eq!(answer.allocation.allocatable.devices[0].id, "GPU-1");
    let pod = &answer.allocation.pods[0];
    assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("default", "train"));
    assert_eq!(pod.containers[0].devices[0].id, "GPU-1");
}

#[tokio::test]
async fn an_absent_socket() {
    let error = failure_of(&Server::absent()).await;
    assert_eq!(error.reason(), "SocketAbsent");
    assert!(error.to_string().contains("kubelet.sock"), "{error}");
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on() {
    let server = Server::absent();
    drop(server.listen());
    assert_eq!(reason_of(&server).await, "Refused");
}

#[tokio::test]
async fn a_socket_behind_a_path_that_is_too_long() {
    let long = std::path::Path::new("/tmp").join("a".repeat(200));
    let error = client_with(&long, Duration::from_secs(1)).read().await.unwrap_err();
    assert_eq!(error.reason(), "NotConnected");
}

#[tokio::test]
async fn a_kubelet_that_hangs_wherever_it_can() {
    let not_accepting = Server::absent();
    let _listener = not_accepting.listen();
    assert_eq!(impatient(&not_accepting).await.reason(), "TimedOut");
    assert_eq!(impatient(&Server::babbling(b"", false)).await.reason(), "TimedOut");
    assert_eq!(impatient(&Server::answering(|_| Reply::Hang)).await.reason(), "TimedOut");
    let second = Server::answering(|call| if call == "List" { Reply::Hang } else { Reply::nothing() });
    let error = impatient(&second).await;
    assert_eq!(error.reason(), "TimedOut");
    assert!(error.to_string().contains("within 0.2 s"), "{error}");
    assert_eq!(second.client().get("a", "b").await.unwrap(), None, "Get answers nothing of nobody");
}

#[tokio::test]
async fn a_socket_replaced_between_two_readings() {
    let mut server = Server::answering(|call| one_gpu(call, "GPU-old"));
    let client = server.client();
    assert_eq!(client.read().await.unwrap().allocation.allocatable.devices[0].id, "GPU-old");
    server.answer(|call| one_gpu(call, "GPU-new"));
    assert_eq!(client.read().await.unwrap().allocation.allocatable.devices[0].id, "GPU-new");
    server.stop();
    assert!(client.read().await.is_err());
}

#[tokio::test]
async fn a_kubelet_that_ends_under_way() {
    assert_eq!(reason_of(&Server::babbling(b"", true)).await, "HungUp");
    // It ends when it is asked the second question: its connection is cut with its task.
    let asked = std::sync::Arc::new(tokio::sync::Notify::new());
    let told = std::sync::Arc::clone(&asked);
    let mut server = Server::answering(move |call| match call {
        "List" => {
            told.notify_one();
            Reply::Hang
        }
        _ => Reply::nothing(),
    });
    let client = server.client();
    let reading = tokio::spawn(async move { client.read().await });
    asked.notified().await;
    server.stop();
    assert_eq!(reading.await.unwrap().unwrap_err().reason(), "HungUp");
}

#[tokio::test]
async fn a_stream_that_is_reset() {
    let error = failure_of(&Server::answering(|_| Reply::HangUp)).await;
    assert!(["HungUp", "Garbled"].contains(&error.reason()), "{error:?}");
}

#[tokio::test]
async fn garbage() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        &[0xff; 64],
        &[0; 64],
    ] {
        assert_eq!(reason_of(&Server::babbling(bytes, false)).await, "Garbled", "{bytes:?}");
        // Who hangs up at once may do so before the bytes were read.
        let reason = reason_of(&Server::babbling(bytes, true)).await;
        assert!(["Garbled", "HungUp"].contains(&reason), "{reason}");
    }
    assert_eq!(reason_of(&Server::answering(|_| Reply::Message(vec![0xff; 9]))).await, "Garbled");
}

#[tokio::test]
async fn six_mebibytes_are_an_answer_and_seventeen_are_too_many() {
    let container = |bytes: usize| v1::ContainerResources {
        name: "n".repeat(1 << 10),
        devices: vec![
            v1::ContainerDevices { resource_name: "r".repeat(1 << 10), ..Default::default() };
            bytes >> 10
        ],
        ..Default::default()
    };
    let list = |bytes: usize| {
        Server::answering(move |call| match call {
            "List" => Reply::of(&one_container(container(bytes))),
            _ => Reply::nothing(),
        })
    };
    let answer = list(6 << 20).client().read().await.unwrap();
    assert_eq!(answer.allocation.pods[0].containers[0].name.len(), 1 << 10);
    let error = list(17 << 20).client().read().await.unwrap_err();
    assert_eq!(error.reason(), "TooLarge");
    assert!(error.to_string().contains("List") && error.to_string().contains("16777216"), "{error}");
}

#[tokio::test]
async fn more_devices_than_any_node_has_are_refused_and_none_is_looked_at() {
    let entry = |resource: String, ids: usize| v1::ContainerDevices {
        resource_name: resource,
        device_ids: (0..ids).map(|id| format!("{id:x}")).collect(),
        topology: None,
    };
    let million = vec![entry("a/b".to_owned(), 1_000_000)];
    let kinds: Vec<_> = (0..300_000).map(|kind| entry(format!("odd name {kind}"), 1)).collect();
    let most = (0..1024).map(|kind| entry(format!("a/b{kind}"), 64)).collect();
    for (devices, said) in [
        (million, Some("1000000 devices")),
        (kinds, Some("300000 devices")),
        ((0..2000).map(|kind| entry(format!("a/{kind}"), 1)).collect(), Some("1025 kinds of devices")),
        (most, None),
    ] {
        let devices: Vec<v1::ContainerDevices> = devices;
        let container = v1::ContainerResources { devices: devices.clone(), ..Default::default() };
        let list = one_container(container);
        let all = v1::AllocatableResourcesResponse { devices, ..Default::default() };
        let both: [(&str, Vec<u8>); 2] =
            [("GetAllocatableResources", all.encode_to_vec()), ("List", list.encode_to_vec())];
        for (call, bytes) in both {
            let server = Server::answering(move |asked| match asked == call {
                true => Reply::Message(bytes.clone()),
                false => Reply::nothing(),
            });
            let answer = server.client().read().await;
            match said {
                None => assert_eq!(answer.unwrap().oddities, []),
                Some(said) => {
                    let error = answer.unwrap_err();
                    assert_eq!(error.reason(), "TooMany", "{error}");
                    assert!(error.to_string().contains(said) && error.to_string().contains(call), "{error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_kubelets_own_errors() {
    for (code, message, reason) in [
        (Code::ResourceExhausted, "rejected by rate limit", "RateLimited"),
        (
            Code::ResourceExhausted,
            "trying to send message larger than max (2147483648 vs. 2147483647)",
            "TooLarge",
        ),
        (Code::ResourceExhausted, "no more", "Failed"),
        (Code::Unimplemented, "unknown service v1.PodResourcesLister", "Unimplemented"),
        (Code::Unknown, "PodResources API GetAllocatableResources disabled", "Unimplemented"),
        (Code::Internal, "cannot list", "Failed"),
        (Code::Unknown, "something is not found", "Failed"),
    ] {
        let error = failure_of(&Server::answering(move |_| Reply::Status(code, message))).await;
        assert_eq!(error.reason(), reason, "{code:?} {message}: {error}");
        assert!(error.to_string().contains("GetAllocatableResources"), "{error}");
    }
}

#[tokio::test]
async fn one_pod() {
    let server = Server::answering(|call| match call {
        "Get" => {
            let list = one_container(v1::ContainerResources { cpu_ids: vec![3], ..Default::default() });
            Reply::of(&v1::GetPodResourcesResponse { pod_resources: list.pod_resources.into_iter().next() })
        }
        _ => Reply::nothing(),
    });
    let pod = server.client().get("default", "train").await.unwrap().unwrap();
    assert_eq!(pod.containers[0].cpus.to_string(), "3");

    let unknown = "pod train in namespace default not found";
    let server = Server::answering(move |_| Reply::Status(Code::Unknown, unknown));
    assert_eq!(server.client().get("default", "train").await.unwrap(), None);

    let disabled = "PodResources API Get method disabled";
    for (code, message) in [(Code::Unknown, disabled), (Code::Unimplemented, "method Get not implemented")] {
        let server = Server::answering(move |_| Reply::Status(code, message));
        let error = server.client().get("default", "train").await.unwrap_err();
        assert_eq!(error.reason(), "Unimplemented", "{error}");
    }
}
