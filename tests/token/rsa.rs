use jeton::id::MechanismType as M; pub const COVERED: [M; 0] = [];
