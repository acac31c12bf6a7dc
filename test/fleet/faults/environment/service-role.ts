/** The services that the fault runs and the simulation start. */
export type Role = "writer" | "reader" | "coordinator" | "watchdog";
