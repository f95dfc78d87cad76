//! The keys and certificates of a control plane.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// What the API server is called: by tests, by a virtual machine of QEMU's (10.0.2.2 is its name for this machine), and by
/// Pods.
const SERVER_NAMES: [&str; 5] = ["127.0.0.1", "localhost", "10.0.2.2", "10.0.0.1", "kubernetes.default.svc"];

/// Signs who may be whom.
#[derive(Debug)]
pub(super) struct Keys {
    directory: PathBuf,
    ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both in PEM.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Keys {
    /// New ones, with the API server's files in `directory`: `ca.crt`, `server.{crt,key}` and `service-accounts.{pub,key}`.
    pub(super) fn generate(directory: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "gpulet tests");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let ca_pem = params.self_signed(&key).unwrap().pem();
        let keys = Self { directory: directory.to_owned(), ca_pem, issuer: Issuer::new(params, key) };
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write("ca.crt", &keys.ca_pem);
        let server = keys
            .sign_with(CertificateParams::new(SERVER_NAMES.map(str::to_owned)).unwrap(), "kube-apiserver");
        write("server.crt", &server.certificate);
        write("server.key", &server.key);
        let service_accounts = KeyPair::generate().unwrap();
        write("service-accounts.key", &service_accounts.serialize_pem());
        write("service-accounts.pub", &service_accounts.public_key_pem());
        keys
    }

    /// A certificate of `user` in `group`.
    pub(super) fn sign(&self, user: &str, group: Option<&str>) -> Signed {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign_with(params, user)
    }

    /// Somebody who may do everything.
    pub(super) fn admin(&self) -> Signed {
        self.sign("admin", Some("system:masters"))
    }

    /// The certificate of this issuer in PEM.
    pub(super) fn ca_pem(&self) -> String {
        self.ca_pem.clone()
    }

    /// The same as a file.
    pub(super) fn ca_path(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    /// The key that signs tokens of service accounts.
    pub(super) fn service_accounts(&self) -> PathBuf {
        self.directory.join("service-accounts.key")
    }

    fn sign_with(&self, mut params: CertificateParams, name: &str) -> Signed {
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed { certificate, key: key.serialize_pem() }
    }
}
