/** Metrics of runners, sessions, signing services, signatures of people and the gateway. */
import type { MetricMakers } from "./metric-makers.ts";

export function runnerMetrics(make: MetricMakers) {
  return {
    runnerAgents: make.gauge(
      "fleet_runner_agents",
      "Agents that a runner has started or is about to start.",
      ["agent_type"],
    ),
    runnerExitsTotal: make.counter("fleet_runner_exits_total", "Agents of a runner that ended.", [
      "agent_type",
      "class",
    ]),
    runnerOffersVoidTotal: make.counter(
      "fleet_runner_offers_void_total",
      "Offers that were void when a runner wanted them: accepted by another agent, ended, or not made by the fleet.",
      ["agent_type"],
    ),
    runnerOffersRefusedTotal: make.counter(
      "fleet_runner_offers_refused_total",
      "Messages that a runner refused as offers: of another form, or with a digest that is not that of their content.",
      ["agent_type"],
    ),
  };
}

export function sessionMetrics(make: MetricMakers) {
  return {
    turnEventsTotal: make.counter("fleet_turn_events_total", "Events of sessions, with what was decided.", [
      "event",
      "decision",
    ]),
  };
}

export function signerMetrics(make: MetricMakers) {
  return {
    signerRequestsTotal: make.counter(
      "fleet_signer_requests_total",
      "Connections with a token that a signing service decided: issued, or the reason of the refusal; agent_issued and agent_refused: for agents of runners.",
      ["outcome"],
    ),
    esignaturesTotal: make.counter(
      "fleet_esignatures_total",
      "Electronic signatures of people that a writer decided: added, or the reason of the refusal.",
      ["outcome"],
    ),
  };
}

export function gatewayMetrics(make: MetricMakers) {
  return {
    gatewayRequestsTotal: make.counter(
      "fleet_gateway_requests_total",
      "Requests that the gateway answered, by operation and HTTP status.",
      ["op", "status"],
    ),
    gatewayLatencyMs: make.latency(
      "fleet_gateway_latency_ms",
      "Time from receiving an HTTP request to its answer, in milliseconds.",
    ),
  };
}
