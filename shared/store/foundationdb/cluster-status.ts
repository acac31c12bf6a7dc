/** The machine-readable status of a FoundationDB cluster, reduced to what operators must know. */
import type { StoreCluster } from "../../protocol/diagnosis.ts";
import { StoreError } from "../store.ts";
import { type Connection, newTransaction } from "./client.ts";
import { storeErrorOf } from "./errors.ts";
import { openResult } from "./results.ts";

/** The client library answers a read of this key itself, also while the database is unavailable. */
const STATUS_KEY = Buffer.from("\xff\xff/status/json", "latin1");

/** Throws StoreError. */
export async function readClusterStatus(connection: Connection, timeoutMs: number): Promise<StoreCluster> {
  const native = newTransaction(connection, { timeoutMs, priority: "default" });
  try {
    const value = await openResult(native.get(STATUS_KEY), () => native.rawCancel());
    if (value === undefined) throw new StoreError("unavailable", "the client library has no status");
    return parseClusterStatus(value.toString());
  } catch (error) {
    throw error instanceof StoreError ? error : storeErrorOf(error, "before_commit");
  } finally {
    native.rawCancel();
  }
}

/** Any part of the document may be missing: FoundationDB leaves out what it does not know at the moment. */
export function parseClusterStatus(text: string): StoreCluster {
  const status = new Part(JSON.parse(text));
  const [client, cluster] = [status.part("client"), status.part("cluster")];
  const coordinators = client.part("coordinators").parts("coordinators");
  const processes = cluster.part("processes").values();
  const addresses = coordinators.map((one) => one.text("address") ?? "");
  const tolerance = cluster.part("fault_tolerance");
  const tolerated = (what: string) =>
    // Version 6.3 renamed machines to zones.
    tolerance.number(`max_zone_failures_${what}`) ?? tolerance.number(`max_machine_failures_${what}`);
  const data = cluster.part("data").part("state");
  const limitation = cluster.part("qos").part("performance_limited_by").text("name");
  const isTrue = (name: string) => (one: Part) => one.flag(name) === true;
  return {
    available: client.part("database_status").flag("available") ?? false,
    quorum_reachable: client.part("coordinators").flag("quorum_reachable") ?? false,
    coordinators: coordinators.length,
    coordinators_unreachable: coordinators.filter((one) => one.flag("reachable") === false).length,
    coordinators_plain: addresses.filter((address) => !isProtected(address)).length,
    cluster_file_current: client.part("cluster_file").flag("up_to_date"),
    redundancy: cluster.part("configuration").text("redundancy_mode"),
    data_state: data.text("name"),
    data_healthy: data.flag("healthy"),
    failures_without_loss: tolerated("without_losing_data"),
    failures_available: tolerated("without_losing_availability"),
    processes: processes.length,
    processes_excluded: processes.filter(isTrue("excluded")).length,
    processes_degraded: processes.filter(isTrue("degraded")).length,
    versions: [...new Set(processes.flatMap((one) => one.text("version") ?? []))].sort(),
    locked: cluster.flag("database_locked") ?? false,
    limited_by: limitation === "workload" ? null : limitation,
    disk_free_ratio: smallest(processes.flatMap((one) => freeRatio(one.part("disk")) ?? [])),
    messages: [...client.parts("messages"), ...cluster.parts("messages")].flatMap(
      (one) => one.text("name") ?? [],
    ),
  };
}

/** A part of the document, which may be missing or of another form. */
class Part {
  readonly #value: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    this.#value = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  }

  part(name: string): Part {
    return new Part(this.#value[name]);
  }

  parts(name: string): Part[] {
    const found = this.#value[name];
    return Array.isArray(found) ? found.map((one) => new Part(one)) : [];
  }

  values(): Part[] {
    return Object.values(this.#value).map((one) => new Part(one));
  }

  text(name: string): string | null {
    const found = this.#value[name];
    return typeof found === "string" ? found : null;
  }

  number(name: string): number | null {
    const found = this.#value[name];
    return typeof found === "number" ? found : null;
  }

  flag(name: string): boolean | null {
    const found = this.#value[name];
    return typeof found === "boolean" ? found : null;
  }
}

/** With TLS, or on this machine alone: "10.0.4.1:4500:tls", "127.0.0.1:4500", "[::1]:4500(fromHostname)". */
const isProtected = (address: string): boolean =>
  /^(?:127\.|\[::1\]|localhost:)/.test(address) || /:tls\b/.test(address);

function freeRatio(disk: Part): number | undefined {
  const [free, total] = [disk.number("free_bytes"), disk.number("total_bytes")];
  return free === null || total === null || total <= 0 ? undefined : free / total;
}

const smallest = (ratios: readonly number[]): number | null =>
  ratios.length === 0 ? null : Math.min(...ratios);
