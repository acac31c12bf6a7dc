// Checks of the store: whether it answers each service, and the health of a FoundationDB cluster by its own status.

import type { StoreCluster } from "../../../../../shared/protocol/diagnosis.ts";
import { connectionName } from "../../../../../shared/sdk/client/diagnosis.ts";
import { counted, percentText } from "../../../rendering/terminal/text.ts";
import { type CheckOutcome, failed, notChecked, orSound, sound, warning } from "../check-outcome.ts";
import type { BusFacts } from "../facts.ts";

const STATUS = "`fdbcli --exec 'status details'`";
/** FoundationDB slows writes down from a twentieth on. */
const FREE_RATIO_MIN = 0.1;

export function checkStore({ services, unasked }: BusFacts): readonly CheckOutcome[] {
  if (services.length === 0) return [notChecked("store.health", unasked?.problem ?? "no service answers")];
  const problems = services.flatMap(({ diagnosis }): CheckOutcome[] => {
    const { store } = diagnosis;
    if (store.ok) return [];
    const found = `the store does not answer ${connectionName(diagnosis)}: ${store.detail}`;
    return [
      failed(
        "store.health",
        found,
        `Start the store, or check FLEET_STORE. ${storeStep(store.engine)} Runbook: the store does not answer.`,
      ),
    ];
  });
  const engines = [...new Set(services.map(({ diagnosis }) => diagnosis.store.engine))].sort().join(", ");
  return [
    ...orSound(problems, () =>
      sound("store.health", `${engines} answered ${counted(services.length, "instance")}`),
    ),
    ...checkMemory(engines),
    ...checkCluster(services.map(({ diagnosis }) => diagnosis.store)),
  ];
}

const storeStep = (engine: string): string =>
  engine === "foundationdb" ? `${STATUS} shows which part is down.` : "The log of the service has the error.";

function checkMemory(engines: string): readonly CheckOutcome[] {
  if (!engines.includes("memory")) return [];
  const fix = "Set FLEET_STORE to lmdb:PATH or fdb:CLUSTER_FILE, and restart the services.";
  return [warning("store.health", "the records are in memory alone: a restart loses them", fix)];
}

function checkCluster(
  stores: readonly { readonly cluster: StoreCluster | null; readonly cluster_problem: string | null }[],
): readonly CheckOutcome[] {
  const cluster = stores.flatMap((one) => one.cluster ?? [])[0];
  if (cluster !== undefined) {
    return orSound(clusterProblems(cluster), () => sound("store.cluster", clusterText(cluster)));
  }
  const problem = stores.find(({ cluster_problem }) => cluster_problem !== null)?.cluster_problem;
  return problem
    ? [notChecked("store.cluster", `the status of FoundationDB cannot be read: ${problem}`)]
    : [];
}

const clusterText = ({ redundancy, processes, versions, failures_without_loss }: StoreCluster): string =>
  `FoundationDB ${versions.join(", ")}: ${counted(processes, "process", "processes")}, redundancy ${redundancy ?? "unknown"}, ` +
  `${counted(failures_without_loss ?? 0, "zone")} may fail without a loss`;

/** What FoundationDB reports itself, the worst first. */
export function clusterProblems(cluster: StoreCluster): CheckOutcome[] {
  return [...availability(cluster), ...redundancy(cluster), ...pressure(cluster)];
}

function availability(one: StoreCluster): CheckOutcome[] {
  const found: CheckOutcome[] = [];
  const problem = (text: string, fix: string) => found.push(failed("store.cluster", text, fix));
  if (!one.quorum_reachable) {
    problem(
      "a majority of the coordinators of FoundationDB is not reachable",
      "Start the fdbservers that the cluster file names, and check the firewalls between them and the services.",
    );
  } else if (one.coordinators_unreachable > 0) {
    const text = `${one.coordinators_unreachable} of ${one.coordinators} coordinators are not reachable`;
    const fix = `Start them, or name others: \`fdbcli --exec 'coordinators auto'\`. ${STATUS} names them.`;
    found.push(warning("store.cluster", text, fix));
  }
  if (!one.available) {
    const reason = one.messages.length === 0 ? "" : ` (${one.messages.join(", ")})`;
    problem(
      `FoundationDB is not available${reason}`,
      `${STATUS} says which processes or disks it waits for.`,
    );
  }
  if (one.locked)
    problem(
      "the database is locked",
      "A restore or a switch of clusters locks it: `fdbcli --exec 'unlock UID'` when that has ended.",
    );
  if (one.cluster_file_current === false) {
    const text = "the cluster file of a service is not up to date";
    const fix =
      "Let the user of the service write its cluster file: the client library updates it when the coordinators change.";
    found.push(warning("store.cluster", text, fix));
  }
  return found;
}

function redundancy(one: StoreCluster): CheckOutcome[] {
  const found: CheckOutcome[] = [];
  if (one.data_healthy === false) {
    const isLost = one.data_state === "missing_data";
    const text = `the data of FoundationDB is ${(one.data_state ?? "not healthy").replaceAll("_", " ")}`;
    const fix = isLost
      ? "Start the storage servers that hold the missing data. If their disks are lost, restore a backup. Runbook: the store is lost."
      : `FoundationDB copies the data again by itself. If it does not end, start the missing storage servers: ${STATUS}.`;
    found.push((isLost ? failed : warning)("store.cluster", text, fix));
  }
  if (one.failures_without_loss === 0 && one.redundancy !== "single") {
    const text = `the loss of one more zone loses data, although the redundancy is ${one.redundancy ?? "unknown"}`;
    found.push(
      failed(
        "store.cluster",
        text,
        "Start the missing machines, or add some. Do not stop any until the data is healthy.",
      ),
    );
  }
  if (one.redundancy === "single" && one.processes > 1) {
    const fix = "`fdbcli --exec 'configure double'` for three machines, `triple` for five.";
    found.push(warning("store.cluster", "FoundationDB keeps one copy of the data", fix));
  }
  if (one.processes_excluded > 0) {
    const text = `${counted(one.processes_excluded, "process is", "processes are")} excluded`;
    found.push(warning("store.cluster", text, "Remove them, or `fdbcli --exec 'include all'`."));
  }
  return found;
}

function pressure(one: StoreCluster): CheckOutcome[] {
  const found: CheckOutcome[] = [];
  if (one.processes_degraded > 0) {
    const text = `${counted(one.processes_degraded, "process is", "processes are")} degraded`;
    found.push(warning("store.cluster", text, `${STATUS} names them; check their disks and their network.`));
  }
  if (one.versions.length > 1) {
    const text = `the fdbservers have different versions: ${one.versions.join(", ")}`;
    found.push(warning("store.cluster", text, "Install one version on all machines."));
  }
  if (one.disk_free_ratio !== null && one.disk_free_ratio < FREE_RATIO_MIN) {
    const text = `the fullest disk of FoundationDB has ${percentText(one.disk_free_ratio * 100)} free`;
    found.push(
      warning(
        "store.cluster",
        text,
        "Free space on it, or add storage servers. Below 5 % FoundationDB stops writes.",
      ),
    );
  }
  if (one.limited_by !== null) {
    const text = `FoundationDB slows writes down: ${one.limited_by.replaceAll("_", " ")}`;
    found.push(
      warning(
        "store.cluster",
        text,
        `${STATUS} names the server. Add storage or log servers, or write less.`,
      ),
    );
  }
  return found;
}
