/**
 * The urgency of an alert. Separate from the alerts, because their schemas load too slowly for the start of
 * the command line.
 */
export const SEVERITIES = ["warning", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];
