/** Metrics of handoffs and recoveries. */
import type { MetricMakers } from "./metric-makers.ts";

export function handoffMetrics(make: MetricMakers) {
  const handoffSuccessRate = make.gauge(
    "handoff_success_rate",
    "Share of handoffs that the next agent confirmed, from 0 to 1; without open ones and without cancelled ones, unless the agent that had accepted failed.",
  );
  // A gauge starts at 0, and a rate of 0 before the first handoff would raise an alarm: absent until it is
  // known.
  handoffSuccessRate.remove();

  return {
    handoffSuccessRate,
    handoffsTotal: make.counter("fleet_handoffs_total", "Handoffs that entered a state.", ["state"]),
    handoffsOpen: make.backlog("fleet_handoffs_open", "Handoffs that have not ended, by state.", ["state"]),
    handoffContextUtilization: make.fractions(
      "fleet_handoff_context_utilization",
      "The used fraction of the agent's context when it handed its task off.",
    ),
    handoffDurationMs: make.durations(
      "fleet_handoff_duration_ms",
      "Time from the request of a handoff to its acceptance, in milliseconds.",
    ),
  };
}

export function recoveryMetrics(make: MetricMakers) {
  return {
    recoveryAttemptsTotal: make.counter(
      "recovery_attempts_total",
      "Recoveries by class of failure: initiated, completed by a checkpoint of the next agent, or blocked.",
      ["class", "outcome"],
    ),
    recoveries: make.backlog("fleet_recoveries", "Open recoveries, by state.", ["state"]),
    redactedTotal: make.counter(
      "fleet_redacted_total",
      "Secrets that agents and gateways removed from applied commands.",
      ["rule"],
    ),
    secretsRefusedTotal: make.counter(
      "fleet_secrets_refused_total",
      "Secrets in commands that the policy of their tenant refuses.",
      ["rule"],
    ),
    missionsSilentTotal: make.counter(
      "fleet_missions_silent_total",
      "Missions that were marked because they had no activity, or because an agent reported a lost context.",
    ),
    recoveryDetectMs: make.durations(
      "fleet_recovery_detect_ms",
      "Time from the end of an agent's last lease to the record of its failure, in milliseconds.",
    ),
    recoveryResumeMs: make.durations(
      "fleet_recovery_resume_ms",
      "Time from the record of a failure to the first checkpoint of the next agent, in milliseconds.",
    ),
    failuresTotal: make.counter("fleet_failures_total", "Agents that failed and lost their task.", [
      "class",
      "signal",
    ]),
    agentsWatched: make.gauge("fleet_agents_watched", "Agents with a task that a watchdog watches."),
    watchdogAttentionMsLostTotal: make.counter(
      "fleet_watchdog_attention_ms_lost_total",
      "Time in which a watchdog could not observe heartbeats, in milliseconds; it counts as silence of no agent.",
    ),
  };
}
