// Names by which the measurement recognises what the load has made.

/** The tasks of agents that stay begin with it. */
export const RESIDENT = "resident-";
