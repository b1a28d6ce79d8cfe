//! What others build upon: a change of a flag, a default or a metric shows here.

controller_testing::surface!("disruption-controller");
