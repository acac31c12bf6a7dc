/**
 * Inspects and repairs the streams and consumers of a service, periodically and for /readyz. A finding is
 * logged and counted once, and again only after it was gone.
 */
import type { Bus } from "../bus/bus.ts";
import type { StreamFinding } from "../protocol/fleet-health.ts";
import type { Health, HealthCheck } from "../runtime/observability/ops-server.ts";
import type { ServiceContext, Stop } from "../runtime/process/service.ts";
import { recentResult } from "../runtime/recent-result.ts";
import { startTicker } from "../runtime/ticker.ts";

const INSPECT_EVERY_MS = 15_000;
/** Probes are frequent, so they share an inspection. */
const SHARED_MS = 1_000;

export function startStreamInspection({
  buses,
  clock,
  log,
  metrics,
}: ServiceContext & { readonly buses: readonly Pick<Bus, "inspectStreams">[] }): {
  readonly check: HealthCheck;
  /** What the last inspection found. It is repeated after a second. */
  readonly findings: () => Promise<StreamFinding[]>;
  readonly stop: Stop;
} {
  let known = new Set<string>();
  const inspect = async (): Promise<StreamFinding[]> => {
    const findings: StreamFinding[] = [];
    // In order: the first has the streams, which the consumers of the others need.
    for (const bus of buses) findings.push(...(await bus.inspectStreams({ repair: true })));
    const unique = distinct(findings);
    const names = new Map(unique.map((finding) => [findingText(finding), finding]));
    for (const [name, finding] of names) {
      if (known.has(name)) continue;
      metrics.streamFindingsTotal.inc({ kind: finding.kind, repaired: String(finding.repaired) });
      log.warn({ ...finding }, "a stream or consumer is not as Fleet needs it");
    }
    known = new Set(names.keys());
    return unique;
  };
  const shared = recentResult(inspect, { maxAgeMs: SHARED_MS, clock });
  const stop = startTicker({
    name: "stream inspection",
    everyMs: INSPECT_EVERY_MS,
    jitter: 0.3,
    run: async () => void (await shared()),
    clock,
    log,
  });
  return { check: async () => healthOf(await shared()), findings: shared, stop };
}

/** Two connections may report the same consumer: its owner, which repairs it, and another one. */
function distinct(findings: readonly StreamFinding[]): StreamFinding[] {
  const byName = new Map<string, StreamFinding>();
  for (const finding of findings) {
    const name = `${finding.stream} ${finding.consumer ?? ""} ${finding.kind}`;
    if (byName.get(name)?.repaired !== true) byName.set(name, finding);
  }
  return [...byName.values()];
}

function healthOf(findings: readonly StreamFinding[]): Health {
  return {
    ok: !findings.some(({ blocks }) => blocks),
    detail: findings.map(findingText).join("; "),
  };
}

function findingText({ stream, consumer, kind, detail, repaired }: StreamFinding): string {
  const name = consumer === null ? `stream ${stream}` : `consumer ${consumer} of ${stream}`;
  return `${name}: ${kind.replace("_", " ")} (${detail})${repaired ? ", repaired" : ""}`;
}
