// The manifests match the API of several Kubernetes versions and the rules for pods, and agree with the settings, the metrics and the
// launcher of the code that they run.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readRunnerSettings } from "../../../services/runner/config.ts";
import { readIssuers } from "../../../services/signer/config.ts";
import { SETTING_NAMES } from "../../../shared/runtime/settings/known-settings.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { alerts } from "../prometheus/rule-file.ts";
import {
  containersOf,
  FOLDER,
  kustomize,
  namedFiles,
  OVERLAYS,
  rawResources,
  render,
  type Workload,
  workloads,
} from "./manifests.ts";
import { signingProblems, violations } from "./policy.ts";
import { nameOf, problemsOf, type Resource, schemaTables } from "./schema.ts";

if (kustomize === undefined)
  process.stderr.write(
    "kubernetes: overlays not rendered, because neither kubectl nor kustomize is on PATH\n",
  );

/** kustomize takes seconds on a busy machine. */
const RENDER_MS = 120_000;
const tables = schemaTables();
const versions = [...tables.keys()].filter((name) => name.startsWith("kubernetes-"));
const custom = tables.get("custom-resources")!;
const SERVICES = ["writer", "reader", "coordinator", "watchdog", "signer", "gateway"];

const ofKind = (resources: readonly Resource[], kind: string) => resources.filter((one) => one.kind === kind);

/** One line for each resource that a version of the API would refuse. */
const refused = (resources: readonly Resource[], version: string): string[] =>
  resources.flatMap(
    (one) => problemsOf(one, [tables.get(version)!, custom]) ?? [`${nameOf(one)}: the API has no such kind`],
  );

test("the raw files match the API, and every named file exists", () => {
  const files = rawResources();
  expect(files.size).toBeGreaterThan(12);
  for (const version of versions) expect(refused([...files.values()].flat(), version)).toEqual([]);
  expect(namedFiles().filter((name) => !existsSync(join(FOLDER, name)))).toEqual([]);
});

test("wrong resources are refused", () => {
  const [service] = ofKind([...rawResources().values()].flat(), "Service") as [Resource];
  const wrong: Record<string, object> = {
    "has the unknown field ports_": { spec: { ports_: [] } },
    "ports: is no list": { spec: { ports: {} } },
    "has no port": { spec: { ports: [{ name: "ops" }] } },
    "is 4280 and no string": { spec: { ports: [{ name: 4280, port: 4280 }] } },
    "does not match": { metadata: { name: "Writer" } },
  };
  for (const [problem, change] of Object.entries(wrong))
    for (const version of versions)
      expect(refused([{ ...service, ...change }], version).join("\n"), version).toContain(problem);
  expect(refused([{ ...service, kind: "Servise" }], "kubernetes-1.32")).toHaveLength(1);
});

test("pods that break a rule are found", () => {
  const [writer] = workloads([...rawResources().values()].flat()).filter(
    ({ resource }) => resource.metadata.name === "runner",
  ) as [Workload];
  expect(violations(writer).filter((line) => !line.includes("without a tag"))).toEqual([]);
  const [container] = writer.pod.containers;
  const changed = (pod: object, own: object = {}): string[] =>
    violations({
      ...writer,
      pod: { ...writer.pod, ...pod, containers: [{ ...container!, image: "fleet:1", ...own }] },
    });
  expect(changed({})).toEqual([]);
  const cases: [string, string[]][] = [
    ["runs as root", changed({ securityContext: { seccompProfile: { type: "RuntimeDefault" } } })],
    ["runs as root", changed({ securityContext: { ...writer.pod.securityContext, runAsUser: 0 } })],
    ["mounts a folder", changed({ volumes: [{ name: "host", hostPath: { path: "/" } }] })],
    ["which changes", changed({}, { image: "nats:latest" })],
    ["without a tag", changed({}, { image: "registry.example.org:5000/nats" })],
    ["has no limits", changed({}, { resources: { requests: container?.resources?.requests } })],
    [
      "can write",
      changed({}, { securityContext: { ...container?.securityContext, readOnlyRootFilesystem: false } }),
    ],
    [
      "keeps capabilities",
      changed({}, { securityContext: { ...container?.securityContext, capabilities: {} } }),
    ],
  ];
  for (const [problem, found] of cases) expect(found.join("\n")).toContain(problem);
});

test("a signing key that others can read, or that is not renewed, is found", () => {
  const [writer] = workloads([...rawResources().values()].flat()) as [Workload];
  const path = "/etc/fleet/signing/signing-key.pem";
  const of = (secret: object, mount: object, value = path): string[] =>
    signingProblems({
      ...writer,
      pod: {
        ...writer.pod,
        volumes: [{ name: "signing-key", secret: { secretName: "signing-key", ...secret } }],
        containers: [
          {
            name: "fleet",
            env: [{ name: "FLEET_SIGNING_KEY", value }],
            volumeMounts: [
              { name: "signing-key", mountPath: "/etc/fleet/signing", readOnly: true, ...mount },
            ],
          },
        ],
      },
    } as Workload);
  expect(of({ defaultMode: 0o440 }, {})).toEqual([]);
  expect(of({}, {})).toEqual([expect.stringContaining("others can read the signing key")]);
  expect(of({ defaultMode: 0o444 }, {})).toHaveLength(1);
  expect(of({ defaultMode: 0o440 }, { subPath: "signing-key.pem" })).toEqual([
    expect.stringContaining("does not see the next signing key"),
  ]);
  expect(of({ defaultMode: 0o440 }, {}, "/etc/fleet/other.pem")).toEqual([
    expect.stringContaining("has no signing key"),
  ]);
});

test("the services' files of settings are valid", () => {
  expect(readIssuers(join(FOLDER, "base/signer/signer.json"))).toMatchObject([{ audience: "fleet" }]);
  const { agents } = readRunnerSettings(join(FOLDER, "runner/runner.json"));
  expect(Object.values(agents)).toMatchObject([
    { launcher: "kubernetes", kubernetes: { namespace: "fleet-agents" } },
  ]);
});

test("the runner may make exactly the calls of its launcher", () => {
  const code = readFileSync(join(projectRoot, "services/runner/launchers/cluster.ts"), "utf8");
  const RIGHTS: Record<string, string> = {
    createNamespacedJob: "jobs create",
    readNamespacedJob: "jobs get",
    deleteNamespacedJob: "jobs delete",
    createNamespacedSecret: "secrets create",
    replaceNamespacedSecret: "secrets update",
    deleteNamespacedSecret: "secrets delete",
    listNamespacedPod: "pods list",
    readNamespacedPodLog: "pods/log get",
  };
  const calls = new Set([...code.matchAll(/\.(\w+Namespaced\w+)\(/g)].map(([, call = ""]) => call));
  const [role] = ofKind(rawResources().get("runner/access.yaml") ?? [], "Role") as [Resource];
  const rules = role.rules as { resources: string[]; verbs: string[] }[];
  const given = rules.flatMap(({ resources, verbs }) =>
    resources.flatMap((one) => verbs.map((verb) => `${one} ${verb}`)),
  );
  expect(given.toSorted()).toEqual([...calls].map((call) => RIGHTS[call] ?? call).toSorted());
});

describe.skipIf(kustomize === undefined)("kustomize renders", { timeout: RENDER_MS }, () => {
  const rendered = new Map(
    kustomize === undefined ? [] : OVERLAYS.map((name) => [name, render(`overlays/${name}`)]),
  );

  test.each(OVERLAYS)("%s, which every version of the API accepts", (name) => {
    expect(versions.length).toBeGreaterThanOrEqual(3);
    for (const version of versions) expect(refused(rendered.get(name)!, version), version).toEqual([]);
  });

  test.each(OVERLAYS)("%s, whose pods follow the rules", (name) => {
    const found = workloads(rendered.get(name)!);
    expect(found.length).toBeGreaterThanOrEqual(SERVICES.length + 3);
    expect(found.flatMap(violations)).toEqual([]);
  });

  test.each(OVERLAYS)(
    "%s, in which only the runner and the signing service have a token of the cluster",
    (name) => {
      const withToken = workloads(rendered.get(name)!).filter(({ pod }) => pod.automountServiceAccountToken);
      expect(withToken.map(({ resource }) => resource.metadata.name)).toEqual(["runner"]);
      const kinds = rendered.get(name)!.map(({ kind }) => kind);
      expect(kinds).not.toContain("ClusterRole");
      expect(kinds.filter((kind) => kind === "Role")).toHaveLength(1);
    },
  );

  test.each(OVERLAYS)(
    "%s, whose services have probes, a budget, an account and a Service for their metrics",
    (name) => {
      const resources = rendered.get(name)!;
      const names = (kind: string) => ofKind(resources, kind).map(({ metadata }) => metadata.name);
      expect(names("Deployment").toSorted()).toEqual(SERVICES.toSorted());
      for (const service of [...SERVICES, "nats"]) {
        expect(names("PodDisruptionBudget")).toContain(service);
        expect(names("ServiceAccount")).toContain(service);
        expect(names("Service")).toContain(service);
      }
      for (const { resource, pod } of workloads(ofKind(resources, "Deployment"))) {
        const [container] = pod.containers;
        expect(container?.livenessProbe, nameOf(resource)).toMatchObject({ httpGet: { path: "/healthz" } });
        expect(container?.readinessProbe, nameOf(resource)).toMatchObject({ httpGet: { path: "/readyz" } });
      }
    },
  );

  test.each(OVERLAYS)("%s, whose variables the services know", (name) => {
    const resources = rendered.get(name)!;
    const settings = ofKind(resources, "ConfigMap").find(({ metadata }) =>
      metadata.name.startsWith("settings-"),
    );
    const set = workloads(resources).flatMap((one) => containersOf(one).flatMap(({ env = [] }) => env));
    const all = [...Object.keys(settings?.data ?? {}), ...set.map((one) => one.name)];
    const unknown = all.filter((one) => one.startsWith("FLEET_") && !SETTING_NAMES.has(one));
    expect(unknown).toEqual([]);
    expect(all).toContain("FLEET_NATS_CA");
  });

  test.each(OVERLAYS)("%s, whose services know the monitoring address of every server of the bus", (name) => {
    const resources = rendered.get(name)!;
    const settings = ofKind(resources, "ConfigMap").find(({ metadata }) =>
      metadata.name.startsWith("settings-"),
    );
    const servers = ofKind(resources, "StatefulSet").find(({ metadata }) => metadata.name === "nats");
    const { replicas = 1, serviceName } = servers!.spec as { replicas?: number; serviceName: string };
    const addresses = Array.from(
      { length: replicas },
      (_, index) => `http://nats-${index}.${serviceName}.fleet.svc.cluster.local:8222`,
    );
    expect(settings?.data).toHaveProperty("FLEET_NATS_MONITOR_URL", addresses.join(","));
  });

  test.each(OVERLAYS)(
    "%s, in which the services with a store, and no others, have the signing key",
    (name) => {
      const signing = workloads(rendered.get(name)!).filter(({ pod }) =>
        JSON.stringify(pod).includes("signing-key"),
      );
      const names = signing.map(({ resource }) => resource.metadata.name);
      expect(names.toSorted()).toEqual(["coordinator", "reader", "watchdog", "writer"]);
      expect(signing.flatMap(signingProblems)).toEqual([]);
    },
  );

  test.each(OVERLAYS)("%s, of which every Secret is in the README and every ConfigMap is made", (name) => {
    const resources = rendered.get(name)!;
    const readme = readFileSync(join(FOLDER, "README.md"), "utf8");
    const volumes = workloads(resources).flatMap(({ pod }) => pod.volumes ?? []);
    const secrets = volumes.flatMap(({ secret }) => (secret === undefined ? [] : [secret.secretName]));
    expect(new Set(secrets).size).toBeGreaterThan(8);
    for (const secret of secrets) expect(readme).toContain(`\`${secret}\``);
    const made = new Set(ofKind(resources, "ConfigMap").map(({ metadata }) => metadata.name));
    if (name === "production") made.add("foundationdb-config"); // by the operator
    const used = volumes.flatMap(({ configMap }) => (configMap === undefined ? [] : [configMap.name]));
    expect(used.filter((one) => !made.has(one))).toEqual([]);
  });

  test.each(OVERLAYS)(
    "%s, in which every policy and Service selects pods, and nothing else is permitted",
    (name) => {
      const resources = rendered.get(name)!;
      const pods = workloads(resources);
      const selects = (selector: Readonly<Record<string, string>> = {}): boolean =>
        pods.some(({ resource, labels }) => {
          const own = { ...labels, ...((resource.spec as { labels?: Labels }).labels?.matchLabels ?? {}) };
          return Object.entries(selector).every(([label, value]) => own[label] === value);
        });
      const policies = ofKind(resources, "NetworkPolicy");
      for (const policy of policies) {
        const { podSelector } = policy.spec as { podSelector: Labels };
        expect(selects(podSelector.matchLabels), nameOf(policy)).toBe(true);
      }
      for (const service of ofKind(resources, "Service"))
        expect(
          selects((service.spec as { selector: Record<string, string> }).selector),
          nameOf(service),
        ).toBe(true);
      const denied = policies.filter(({ metadata }) => metadata.name === "default-deny");
      expect(denied.map(({ metadata }) => metadata.namespace).toSorted()).toEqual(["fleet", "fleet-agents"]);
    },
  );

  test("production has several of each, two copies of the store, scaling, and the rules of Prometheus", () => {
    const resources = rendered.get("production")!;
    const scaled = ofKind(resources, "ScaledObject").map(
      ({ spec }) =>
        spec as { scaleTargetRef: { name: string }; minReplicaCount: number; triggers: Trigger[] },
    );
    const counts = Object.fromEntries([
      ...[...ofKind(resources, "Deployment"), ...ofKind(resources, "StatefulSet")].map(
        ({ metadata, spec }) => [metadata.name, (spec as { replicas?: number }).replicas],
      ),
      ...scaled.map((one) => [one.scaleTargetRef.name, one.minReplicaCount]),
    ]);
    const two = Object.fromEntries(SERVICES.map((service) => [service, 2]));
    expect(counts).toEqual({ ...two, nats: 3, runner: 1 });
    expect(ofKind(resources, "FoundationDBCluster")).toMatchObject([
      { spec: { databaseConfiguration: { redundancy_mode: "double" } } },
    ]);
    const queries = scaled.flatMap(({ triggers }) =>
      triggers.flatMap(({ metadata }) => metadata.query ?? []),
    );
    expect(queries).toContain("max(fleet_queue_oldest_age_ms)");
    const [rule] = ofKind(resources, "PrometheusRule") as [Resource];
    const { groups } = rule.spec as { groups: { rules: { alert?: string }[] }[] };
    const named = groups.flatMap(({ rules }) => rules.flatMap(({ alert }) => alert ?? []));
    expect(named).toEqual(alerts.map(({ alert }) => alert));
    const dashboards = ofKind(resources, "ConfigMap").find(
      ({ metadata }) => metadata.name === "fleet-dashboards",
    );
    expect(Object.keys(dashboards?.data ?? {})).toHaveLength(8);
  });
});

interface Labels {
  readonly matchLabels?: Readonly<Record<string, string>>;
}

interface Trigger {
  readonly metadata: { readonly query?: string };
}
