//! `rounds` drains nodes. `scene` makes a world of lines in words; `table` judges single pods, `goldens` prints whole worlds, `props` searches
//! for a state that contradicts a verdict.

mod goldens;
mod props;
mod rounds;
mod scene;
mod table;
