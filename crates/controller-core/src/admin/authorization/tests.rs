use axum::http::HeaderValue;

use super::*;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn forbidden() -> Verdict {
    Verdict::Forbidden("nobody".into())
}

#[test]
fn who_was_let_in_is_asked_about_after_a_minute_and_who_was_not_after_30_s() {
    let cases = [
        (Verdict::Allowed, at(60)),
        (Verdict::Unauthenticated, at(30)),
        (forbidden(), at(30)),
    ];
    for (verdict, lasts) in cases {
        let mut decisions = Decisions::default();
        let request = key("token", "get", "/metrics");
        assert_eq!(decisions.look(&request, at(7)), Known::Nothing);
        decisions.learn(request, verdict.clone(), at(7));
        let last = (at(7) + lasts).saturating_sub(Duration::from_nanos(1));
        assert_eq!(decisions.look(&request, last), Known::Decided(verdict));
        assert_eq!(decisions.look(&request, at(7) + lasts), Known::Nothing);
    }
}

#[test]
fn a_decision_is_about_one_token_one_verb_and_one_path() {
    let mut decisions = Decisions::default();
    decisions.learn(key("token", "get", "/metrics"), Verdict::Allowed, at(0));
    for other in [
        key("token2", "get", "/metrics"),
        key("token", "head", "/metrics"),
        key("token", "get", "/configz"),
    ] {
        assert_eq!(decisions.look(&other, at(0)), Known::Nothing);
    }
}

#[test]
fn made_up_tokens_are_asked_about_ten_times_and_then_once_a_second() {
    let mut decisions = Decisions::default();
    let mut asked = |tokens: std::ops::Range<u32>, now| {
        let keys = tokens.map(|token| key(&token.to_string(), "get", "/metrics"));
        let asked = keys.filter(|key| decisions.look(key, now) == Known::Nothing);
        asked.count()
    };
    assert_eq!(asked(0..1_000, at(0)), 10);
    assert_eq!(asked(1_000..2_000, at(1)), 1);
    assert_eq!(asked(2_000..3_000, at(4)), 3);
}

#[test]
fn a_flood_of_made_up_tokens_neither_grows_nor_keeps_a_scraper_out() {
    let mut decisions = Decisions::default();
    let scraper = key("scraper", "get", "/metrics");
    decisions.learn(scraper, Verdict::Allowed, at(0));
    for second in 1..1_000 {
        let made_up = key(&format!("made up {second}"), "get", "/metrics");
        if decisions.look(&made_up, at(second)) == Known::Nothing {
            decisions.learn(made_up, Verdict::Unauthenticated, at(second));
        }
        while decisions.look(&key("one too many", "get", "/metrics"), at(second)) == Known::Nothing {}
        match decisions.look(&scraper, at(second)) {
            Known::Decided(Verdict::Allowed) => {}
            Known::Nothing => decisions.learn(scraper, Verdict::Allowed, at(second)),
            kept_out => panic!("{kept_out:?} at {second} s"),
        }
    }
    assert_eq!(decisions.by_request.len(), MOST_DECISIONS);
}

#[test]
fn a_token_is_in_no_log() {
    let token = "secret".to_owned();
    assert_eq!(format!("{:?}", TokenReview { token }), "TokenReview { .. }");
}

#[test]
fn a_bearer_token_is_read_from_its_header() {
    let token = |header: &'static str| {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))]);
        bearer(&headers).map(str::to_owned)
    };
    for header in ["Bearer abc", "bearer abc", "BEARER  abc "] {
        assert_eq!(token(header).as_deref(), Some("abc"), "{header:?}");
    }
    for header in ["", "Bearer", "Bearer ", "abc", "Basic abc", "Bearerabc"] {
        assert_eq!(token(header), None, "{header:?}");
    }
    assert_eq!(bearer(&HeaderMap::new()), None);
}
