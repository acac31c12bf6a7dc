/** How urgent an alert is. Apart from the alerts, whose schemas take longer to load than the command line may take to start. */
export const SEVERITIES = ["warning", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];
