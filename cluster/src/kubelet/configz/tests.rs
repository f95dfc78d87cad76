use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::super::settings::settings;
use super::{Configz, ConfigzError, Told, Trust};

const NAME: &str = "node-a";
const BODY: &str = r#"{"kubeletconfig": {"cpuManagerPolicy": "static"}}"#;

/// A kubelet's HTTPS port, and the files that one needs to ask it.
struct Kubelet {
    directory: TempDir,
    address: String,
    /// How many requests it has read.
    asked: Arc<AtomicUsize>,
}

/// An authority with this name, and its certificate.
fn authority(name: &str) -> (Issuer<'static, KeyPair>, String, Vec<u8>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let (pem, der) = (certificate.pem(), certificate.der().to_vec());
    (Issuer::new(params, key), pem, der)
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
        .into_bytes()
}

impl Kubelet {
    /// One that answers each request, given its head, with the bytes.
    fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        Self::for_name(NAME, answer)
    }

    /// With a certificate for this name.
    fn for_name(name: &str, answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let (directory, asked) = (tempfile::tempdir().unwrap(), Arc::<AtomicUsize>::default());
        // As a kubelet signs for itself: an authority of its own, and a certificate for the host's name.
        let (issuer, authority, _) = authority("node-a-ca@1");
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        fs::write(directory.path().join("kubelet.crt"), certificate.pem() + &authority).unwrap();
        fs::write(directory.path().join("ca.crt"), authority).unwrap();
        fs::write(directory.path().join("other.crt"), self::authority("other").1).unwrap();
        fs::write(directory.path().join("token"), "secret\n").unwrap();

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config =
            config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (config, counted) = (Arc::new(config), Arc::clone(&asked));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream);
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    match stream.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => break,
                    }
                }
                if !head.is_empty() {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(&answer(&String::from_utf8(head).unwrap()));
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                }
            }
        });
        Self { directory, address, asked }
    }

    fn saying(status: &'static str, body: impl Into<String>) -> Self {
        let answer = answer(status, &body.into());
        Self::answering(move |_| answer.clone())
    }

    fn at(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    fn verified(&self, authorities: &[&str], name: &str) -> Configz {
        let authorities = authorities.iter().map(|file| self.at(file)).collect();
        self.trusting(Trust::Verified { authorities, names: vec!["absent".to_owned(), name.to_owned()] })
    }

    fn trusting(&self, trust: Trust) -> Configz {
        let (address, token_file) = (self.address.clone(), self.at("token"));
        Configz { address, token_file, trust, deadline: Duration::from_secs(20) }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn reason(configz: &Configz) -> &'static str {
    configz.read().await.unwrap_err().reason()
}

#[tokio::test]
async fn a_kubelet_is_verified_by_its_own_certificate_or_by_the_authority() {
    let kubelet = Kubelet::saying("200 OK", BODY);
    for authorities in [&["kubelet.crt"][..], &["ca.crt"], &["absent.crt", "other.crt", "ca.crt"]] {
        let told = kubelet.verified(authorities, NAME).read().await.unwrap();
        let place = format!("https://{}/configz", kubelet.address);
        assert_eq!(told, Told { body: BODY.into(), place });
    }
    assert_eq!(kubelet.asked(), 3);
}

#[tokio::test]
async fn who_is_not_to_be_trusted_gets_no_token() {
    let kubelet = Kubelet::saying("200 OK", BODY);
    for (authorities, name) in
        [(&["other.crt"][..], NAME), (&["ca.crt"], "node-b"), (&["ca.crt"], "127.0.0.1")]
    {
        let error = kubelet.verified(authorities, name).read().await.unwrap_err();
        assert_eq!(error.reason(), "Untrusted", "{error}");
    }
    fs::write(kubelet.at("empty.crt"), "").unwrap();
    for authorities in [&[][..], &["absent.crt"], &["empty.crt"]] {
        assert_eq!(reason(&kubelet.verified(authorities, NAME)).await, "NoAuthority");
    }
    let whole = fs::read_to_string(kubelet.at("ca.crt")).unwrap();
    fs::write(kubelet.at("broken.crt"), &whole[..whole.len() / 2]).unwrap();
    let error = kubelet.verified(&["broken.crt", "ca.crt"], NAME).read().await.unwrap_err();
    assert_eq!(error.reason(), "BrokenAuthority");
    assert!(error.to_string().contains("broken.crt"), "{error}");
    assert_eq!(kubelet.asked(), 0);
}

#[tokio::test]
async fn unverified_is_a_choice_and_is_told() {
    let kubelet = Kubelet::saying("200 OK", BODY);
    let told = kubelet.trusting(Trust::Unverified).read().await.unwrap();
    assert!(told.place.ends_with("/configz, its certificate not verified"), "{}", told.place);
}

#[tokio::test]
async fn the_request_is_the_one_that_the_right_is_for_and_its_token_is_read_anew() {
    let kubelet = Kubelet::answering(|head| {
        let good = head.starts_with("GET /configz HTTP/1.1\r\n")
            && head.contains("authorization: Bearer renewed\r\n");
        let status = if good { "200 OK" } else { "401 Unauthorized" };
        format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}").into_bytes()
    });
    let configz = kubelet.verified(&["kubelet.crt"], NAME);
    assert_eq!(reason(&configz).await, "Unauthorized");
    fs::write(kubelet.at("token"), "renewed").unwrap();
    assert_eq!(configz.read().await.unwrap().body, b"{}");
    for token in ["two\nlines", ""] {
        fs::write(kubelet.at("token"), token).unwrap();
        assert_eq!(reason(&configz).await, "NoToken", "{token:?}");
    }
    fs::remove_file(kubelet.at("token")).unwrap();
    assert_eq!(reason(&configz).await, "NoToken");
}

#[tokio::test]
async fn what_else_a_kubelet_may_answer() {
    for (status, reason) in [
        ("401 Unauthorized", "Unauthorized"),
        ("403 Forbidden", "Forbidden"),
        ("404 Not Found", "UnexpectedStatus"),
        ("500 Internal Server Error", "UnexpectedStatus"),
        ("307 Temporary Redirect", "UnexpectedStatus"),
    ] {
        let kubelet = Kubelet::saying(status, "no");
        let error = kubelet.verified(&["ca.crt"], NAME).read().await.unwrap_err();
        assert_eq!(error.reason(), reason);
        assert!(error.to_string().contains(&kubelet.address), "{error}");
    }
    let large = Kubelet::saying("200 OK", " ".repeat((1 << 20) + 1));
    assert_eq!(reason(&large.verified(&["ca.crt"], NAME)).await, "TooLarge");
    let garbage = Kubelet::answering(|_| b"SSH-2.0-OpenSSH_9.6\r\n".to_vec());
    assert_eq!(reason(&garbage.verified(&["ca.crt"], NAME)).await, "Unreachable");
}

#[tokio::test]
async fn who_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubelet = Kubelet::saying("200 OK", BODY);
    let mut configz = kubelet.verified(&["ca.crt"], NAME);
    configz.address = silent.local_addr().unwrap().to_string();
    configz.deadline = Duration::from_millis(100);
    assert_eq!(reason(&configz).await, "TimedOut");
    drop(silent);
    configz.deadline = Duration::from_secs(20);
    assert_eq!(reason(&configz).await, "Unreachable");
    for address in ["", "no address", "127.0.0.1:10250/pods", "a@b:1:2", "a@b", "fd00::1:x"] {
        configz.address = address.to_owned();
        assert_eq!(reason(&configz).await, "BadAddress", "{address}");
    }
}

#[test]
fn the_port_is_the_usual_one_unless_it_is_given() {
    let address = |address: &str| {
        let (token_file, deadline) = (PathBuf::new(), Duration::ZERO);
        let configz = Configz { address: address.to_owned(), token_file, trust: Trust::Unverified, deadline };
        configz.address().unwrap().to_string()
    };
    assert_eq!(address("10.0.0.7"), "10.0.0.7:10250");
    assert_eq!(address("10.0.0.7:10251"), "10.0.0.7:10251");
    assert_eq!(address("fd00::7"), "[fd00::7]:10250");
    assert_eq!(address("[fd00::7]:1"), "[fd00::7]:1");
    assert_eq!(address("node-a:10250"), "node-a:10250");
}

#[tokio::test]
async fn a_certificate_may_be_for_the_address() {
    let kubelet = Kubelet::for_name("127.0.0.1", |_| answer("200 OK", BODY));
    assert_eq!(kubelet.verified(&["ca.crt"], NAME).read().await.unwrap().body, BODY.as_bytes());
}

#[tokio::test]
async fn where_the_files_do_not_tell_the_kubelet_is_asked() {
    let kubelet = Kubelet::saying("200 OK", BODY);
    let configz = kubelet.verified(&["kubelet.crt"], NAME);
    let read = settings(Err("the kubelet is part of k3s"), Some(&configz), None).await.unwrap();
    assert_eq!(read.cpu_manager_policy, "static");
    assert_eq!(read.source, format!("https://{}/configz", kubelet.address));
    let unverified = kubelet.trusting(Trust::Unverified);
    let read = settings(Err("no files"), Some(&unverified), None).await.unwrap();
    assert!(read.source.contains("not verified"));
}

#[tokio::test]
async fn where_neither_tells_both_reasons_are_told() {
    let forbidden = Kubelet::saying("403 Forbidden", "");
    let garbled = Kubelet::saying("200 OK", "[]");
    for (kubelet, word) in [(forbidden, "nodes/configz"), (garbled, "no account of a kubelet's settings")] {
        let configz = kubelet.verified(&["kubelet.crt"], NAME);
        let error = settings(Err("the kubelet is part of k3s"), Some(&configz), None).await.unwrap_err();
        assert_eq!(error.reason(), "SettingsUnknown");
        let text = format!("{error}: {}", error.source().unwrap());
        assert!(text.contains("part of k3s") && text.contains(word), "{text}");
    }
}

#[test]
fn errors_say_where_was_looked() {
    let files = vec![PathBuf::from("/a/ca.crt"), PathBuf::from("/b/kubelet.crt")];
    let error = ConfigzError::NoAuthority { files };
    assert!(error.to_string().contains("/a/ca.crt or /b/kubelet.crt"), "{error}");
}
