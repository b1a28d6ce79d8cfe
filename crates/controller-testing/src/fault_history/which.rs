//! Kinds of requests, and which of them a fault concerns.

use std::fmt;

use embedded_apiserver::{Fault, RecordedRequest, RequestVerb, Resource};

/// A kind of requests.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Which {
    /// Writes to this resource.
    Writes(&'static Resource),
    /// Lists of this resource, including those that are streams.
    Lists(&'static Resource),
    /// Watches of this resource; open ones end, so that new ones come.
    Watches(&'static Resource),
    /// Reads that ask for protobuf; open watches end, so that new ones come.
    InProtobuf,
    /// Reads of single objects, but for the Lease.
    Gets,
    /// Reads and writes of the Lease.
    Lease,
}

impl Which {
    /// True if open watches end, so that new ones meet the fault.
    pub(super) fn ends_watches(self) -> bool {
        matches!(self, Self::Watches(_) | Self::InProtobuf)
    }

    pub(super) fn matches(self, request: &RecordedRequest) -> bool {
        let is_of =
            |resource: &Resource| request.resource == resource.plural && request.group == resource.group;
        match self {
            Self::Writes(resource) => request.verb.is_write() && is_of(resource),
            Self::Lists(resource) => request.lists() && is_of(resource),
            Self::Watches(resource) => {
                request.verb == RequestVerb::Watch && !request.lists() && is_of(resource)
            }
            Self::InProtobuf => request.accept.contains("protobuf"),
            Self::Gets => request.verb == RequestVerb::Get && request.resource != "leases",
            Self::Lease => request.verb != RequestVerb::Watch && request.resource == "leases",
        }
    }
}

/// False if the fault does nothing to such a request.
pub(super) fn concerns(fault: &Fault, request: &RecordedRequest) -> bool {
    match fault {
        Fault::WatchEnds | Fault::WatchSilent | Fault::WatchLags(_) => request.verb == RequestVerb::Watch,
        _ => true,
    }
}

impl PartialEq for Which {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writes(resource) => write!(f, "writes to {}", resource.plural),
            Self::Lists(resource) => write!(f, "lists of {}", resource.plural),
            Self::Watches(resource) => write!(f, "watches of {}", resource.plural),
            Self::InProtobuf => f.write_str("reads in protobuf"),
            Self::Gets => f.write_str("reads of single objects"),
            Self::Lease => f.write_str("requests about the lease"),
        }
    }
}
