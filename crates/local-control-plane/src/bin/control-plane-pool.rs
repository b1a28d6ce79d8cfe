//! Keeps control planes for the test processes of `cargo xtask test`, and ends them when that ends, however it does.

fn main() -> Result<(), local_control_plane::Error> {
    local_control_plane::keep_pool()
}
