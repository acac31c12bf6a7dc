// The status of FoundationDB, by documents of the form that its server writes (fdbclient/Schemas.cpp), and the findings of `fleet doctor`.

import { describe, expect, test } from "vitest";
import { clusterProblems } from "../../../services/cli/commands/doctor/checks/store.ts";
import { storeClusterSchema } from "../../../shared/protocol/diagnosis.ts";
import { parseClusterStatus } from "../../../shared/store/foundationdb/cluster-status.ts";

type Json = Record<string, unknown>;

const coordinator = (address: string, reachable = true) => ({
  address,
  reachable,
  protocol: "0fdb00b073000000",
});

const process = (host: number, more: Json = {}) => ({
  address: `10.0.4.${host}:4500:tls`,
  class_type: "unset",
  excluded: false,
  degraded: false,
  version: "7.3.43",
  disk: { busy: 0.1, free_bytes: 80_000_000_000, total_bytes: 100_000_000_000 },
  roles: [{ role: "storage", id: "eb84471d68c12d1d26f692a50000003f" }],
  ...more,
});

/** A healthy cluster of three machines. */
const CLIENT = {
  cluster_file: { path: "/etc/foundationdb/fdb.cluster", up_to_date: true },
  coordinators: {
    coordinators: [1, 2, 3].map((host) => coordinator(`10.0.4.${host}:4500:tls`)),
    quorum_reachable: true,
  },
  database_status: { available: true, healthy: true },
  messages: [],
  timestamp: 1_415_650_089,
};
const CLUSTER = {
  configuration: { redundancy_mode: "double", storage_engine: "ssd-2", coordinators_count: 3 },
  connection_string: "fleet:aVerySecretId@10.0.4.1:4500:tls",
  data: { state: { healthy: true, min_replicas_remaining: 2, name: "healthy" } },
  database_available: true,
  database_locked: false,
  fault_tolerance: {
    max_zone_failures_without_losing_availability: 1,
    max_zone_failures_without_losing_data: 1,
  },
  messages: [],
  processes: { a: process(1), b: process(2), c: process(3) },
  qos: { performance_limited_by: { name: "workload", reason_id: 2, description: "not saturated" } },
};

const parsed = (client: Json = {}, cluster: Json = {}) =>
  parseClusterStatus(
    JSON.stringify({ client: { ...CLIENT, ...client }, cluster: { ...CLUSTER, ...cluster } }),
  );

const problems = (client: Json = {}, cluster: Json = {}) =>
  clusterProblems(parsed(client, cluster)).map(({ state, found }) => `${state}: ${found}`);

test("a healthy cluster has no problem, and its facts have the form of the protocol", () => {
  expect(problems()).toEqual([]);
  expect(storeClusterSchema.parse(parsed())).toMatchObject({
    available: true,
    coordinators: 3,
    coordinators_plain: 0,
    processes: 3,
    redundancy: "double",
    failures_without_loss: 1,
    versions: ["7.3.43"],
    disk_free_ratio: 0.8,
  });
});

test("the secret of the cluster file is not among the facts", () => {
  expect(JSON.stringify(parsed())).not.toContain("aVerySecretId");
});

const lost = {
  ...CLIENT.coordinators,
  coordinators: [coordinator("10.0.4.1:4500", false), coordinator("10.0.4.2:4500")],
};

describe("each fault has its finding", () => {
  test.each<[title: string, client: Json, cluster: Json, found: string]>([
    [
      "no quorum",
      {
        coordinators: { ...lost, quorum_reachable: false },
        database_status: { available: false, healthy: false },
      },
      {},
      "failed: a majority of the coordinators of FoundationDB is not reachable",
    ],
    ["one coordinator", { coordinators: lost }, {}, "warning: 1 of 2 coordinators are not reachable"],
    [
      "unavailable",
      {
        database_status: { available: false, healthy: false },
        messages: [{ name: "unreachable_cluster_controller" }],
      },
      {},
      "failed: FoundationDB is not available (unreachable_cluster_controller)",
    ],
    ["locked", {}, { database_locked: true }, "failed: the database is locked"],
    [
      "cluster file",
      { cluster_file: { path: "/etc/foundationdb/fdb.cluster", up_to_date: false } },
      {},
      "warning: the cluster file of a service is not up to date",
    ],
    [
      "missing data",
      {},
      { data: { state: { healthy: false, name: "missing_data", min_replicas_remaining: 0 } } },
      "failed: the data of FoundationDB is missing data",
    ],
    [
      "healing",
      {},
      { data: { state: { healthy: false, name: "healing", min_replicas_remaining: 1 } } },
      "warning: the data of FoundationDB is healing",
    ],
    [
      "no tolerance",
      {},
      {
        fault_tolerance: {
          max_zone_failures_without_losing_availability: 0,
          max_zone_failures_without_losing_data: 0,
        },
      },
      "failed: the loss of one more zone loses data, although the redundancy is double",
    ],
    [
      "tolerance of a version before 6.3",
      {},
      {
        fault_tolerance: {
          max_machine_failures_without_losing_availability: 0,
          max_machine_failures_without_losing_data: 0,
        },
      },
      "failed: the loss of one more zone loses data, although the redundancy is double",
    ],
    [
      "one copy",
      {},
      { configuration: { redundancy_mode: "single" } },
      "warning: FoundationDB keeps one copy of the data",
    ],
    ["excluded", {}, { processes: { a: process(1, { excluded: true }) } }, "warning: 1 process is excluded"],
    ["degraded", {}, { processes: { a: process(1, { degraded: true }) } }, "warning: 1 process is degraded"],
    [
      "two versions",
      {},
      { processes: { a: process(1), b: process(2, { version: "7.1.61" }) } },
      "warning: the fdbservers have different versions: 7.1.61, 7.3.43",
    ],
    [
      "a full disk",
      {},
      { processes: { a: process(1), b: process(2, { disk: { free_bytes: 4, total_bytes: 100 } }) } },
      "warning: the fullest disk of FoundationDB has 4% free",
    ],
    [
      "slow storage",
      {},
      { qos: { performance_limited_by: { name: "storage_server_write_queue_size" } } },
      "warning: FoundationDB slows writes down: storage server write queue size",
    ],
  ])("%s", (_, client, cluster, found) => {
    expect(problems(client, cluster)).toContain(found);
    for (const finding of clusterProblems(parsed(client, cluster))) expect(finding.fix).toMatch(/\w+ \w+/);
  });
});

test("coordinators without TLS on other machines are counted", () => {
  const coordinators = ["127.0.0.1:4500", "[::1]:4500", "10.0.4.1:4500", "10.0.4.2:4500:tls(fromHostname)"];
  const found = parsed({
    coordinators: { coordinators: coordinators.map((one) => coordinator(one)), quorum_reachable: true },
  });
  expect(found).toMatchObject({ coordinators: 4, coordinators_plain: 1 });
});

test.each(["{}", "null", '{"client":[],"cluster":{"processes":7,"messages":[1]}}'])(
  "an unavailable cluster leaves parts out: %s",
  (text) => {
    expect(storeClusterSchema.parse(parseClusterStatus(text))).toMatchObject({
      available: false,
      processes: 0,
    });
  },
);
