//! From a request to its answer.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use gpulet_inventory::snapshot::Snapshot;
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Bytes};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};

use super::body::Bodies;
use super::picture::Picture;
use super::{Site, negotiate, page, topology};
use crate::own::Own;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const SVG: &str = "image/svg+xml";
const HTML: &str = "text/html; charset=utf-8";

/// The page needs its own styles and the picture, the picture its own styles, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'";
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const NO_PLAN: &str = "no plan for the GPUs has been made yet";

const NO_SNAPSHOT: &str = "no snapshot of the node has been taken yet";

type Answer = Response<Full<Bytes>>;

/// The site and what was rendered of it.
pub(super) struct Pages {
    site: Site,
    bodies: Bodies,
    picture: Picture,
}

impl Pages {
    pub(super) fn new(site: Site) -> Self {
        Self { site, bodies: Bodies::default(), picture: Picture::default() }
    }

    pub(super) fn own(&self) -> &Own {
        &self.site.own
    }

    /// The answer to `request`, whose body, if any, is not read. hyper leaves out the answer's body for HEAD.
    pub(super) fn answer<B: HttpBody>(&self, request: &Request<B>) -> Answer {
        let page: fn(&Self, &Request<B>) -> Answer = match request.uri().path() {
            "/metrics" => Self::metrics,
            "/healthz" => Self::healthz,
            "/readyz" => Self::readyz,
            "/topology" => Self::topology,
            "/topology.svg" => Self::picture,
            "/plan" => Self::plan,
            "/" => Self::index,
            _ => return text(StatusCode::NOT_FOUND, "no such page; / lists those that there are"),
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        page(self, request)
    }

    /// The answer to `request` where as many connections are open as allowed: about the agent's health, or a refusal.
    pub(super) fn answer_on_health<B: HttpBody>(&self, request: &Request<B>) -> Answer {
        match request.uri().path() {
            "/healthz" | "/readyz" => self.answer(request),
            _ => {
                self.own().refused_connections.inc();
                unavailable("too many connections")
            }
        }
    }

    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.site.snapshot.borrow().clone()
    }

    fn metrics<B>(&self, request: &Request<B>) -> Answer {
        let begun = Instant::now();
        let Some(snapshot) = self.snapshot() else { return unavailable(NO_SNAPSHOT) };
        let format = negotiate::format(request.headers());
        let body = self.bodies.get(&snapshot, &self.site.own, format, negotiate::gzip(request.headers()));
        let mut answer = whole(StatusCode::OK, format.content_type(), body.bytes);
        let headers = answer.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if body.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        self.site.own.scraped(format, begun.elapsed());
        answer
    }

    fn healthz<B>(&self, _: &Request<B>) -> Answer {
        said(self.site.probe.live())
    }

    fn readyz<B>(&self, _: &Request<B>) -> Answer {
        match self.snapshot() {
            Some(_) => said(self.site.probe.ready()),
            None => unavailable(NO_SNAPSHOT),
        }
    }

    fn topology<B>(&self, _: &Request<B>) -> Answer {
        let Some(snapshot) = self.snapshot() else { return unavailable(NO_SNAPSHOT) };
        match topology::json(&snapshot) {
            Ok(json) => whole(StatusCode::OK, JSON, json.into()),
            Err(error) => {
                tracing::error!(%error, "the topology could not be written as JSON");
                text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the topology could not be written as JSON; see the log",
                )
            }
        }
    }

    fn picture<B>(&self, _: &Request<B>) -> Answer {
        let Some(snapshot) = self.snapshot() else { return unavailable(NO_SNAPSHOT) };
        let mut answer = whole(StatusCode::OK, SVG, self.picture.of(&snapshot.topology.value));
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PICTURE_POLICY));
        answer
    }

    fn plan<B>(&self, _: &Request<B>) -> Answer {
        let plan = self.site.plan.borrow().clone();
        match plan {
            Some(json) => whole(StatusCode::OK, JSON, Bytes::copy_from_slice(json.as_bytes())),
            None => unavailable(NO_PLAN),
        }
    }

    fn index<B>(&self, _: &Request<B>) -> Answer {
        let html = page::html(self.snapshot().as_deref(), self.own(), &self.site.about);
        let mut answer = whole(StatusCode::OK, HTML, html.into());
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        answer
    }
}

fn said(word: Result<(), String>) -> Answer {
    match word {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(reason) => unavailable(reason),
    }
}

fn unavailable(reason: impl Display) -> Answer {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn text(status: StatusCode, line: impl Display) -> Answer {
    whole(status, TEXT, format!("{line}\n").into())
}

fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
