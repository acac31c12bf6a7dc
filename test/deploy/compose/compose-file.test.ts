// docker-compose.yml without a container engine: its policies, its parts, and its agreement with the documents and the other files.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { SETTING_NAMES } from "../../../shared/runtime/settings/known-settings.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { buildVariables } from "../image/image-build.ts";
import { promtoolVersion } from "../prometheus/rule-file.ts";
import { type ComposeService, composeVariables, mountsOf, readCompose } from "./compose-file.ts";
import { composeViolations } from "./policy.ts";

const file = readCompose();
const usual = Object.entries(file.services).filter(([, { profiles }]) => profiles === undefined);
const text = (path: string): string => readFileSync(join(projectRoot, path), "utf8");

test("every container follows the rules", () => {
  expect(composeViolations(file)).toEqual([]);
});

test("containers that break a rule are found", () => {
  const changed = (name: string, change: object): string => {
    const service = { ...file.services[name], ...change } as ComposeService;
    return composeViolations({ ...file, services: { ...file.services, [name]: service } }).join("\n");
  };
  const cases: [string, string, object][] = [
    ["nats-0: has the image nats:latest", "nats-0", { image: "nats:latest" }],
    ["nats-0: has the image nats,", "nats-0", { image: "nats" }],
    ["foundationdb: runs as root", "foundationdb", { user: undefined }],
    ["grafana: runs as root", "grafana", { user: "0:0" }],
    ["writer: can write to its image", "writer", { read_only: false }],
    ["writer: keeps capabilities", "writer", { cap_add: ["SYS_ADMIN"] }],
    ["writer: may get rights", "writer", { security_opt: [] }],
    ["writer: has no limit of memory", "writer", { deploy: { replicas: 2 } }],
    ["nats-1: has no health check", "nats-1", { healthcheck: undefined }],
    ["writer: has no health check", "writer", { healthcheck: { disable: true } }],
    ["gateway: publishes 4284:4284", "gateway", { ports: ["4284:4284"] }],
    ["writer: mounts keys of another", "writer", { volumes: ["keys:/data:ro"] }],
    [
      "writer: mounts reader-access of another",
      "writer",
      { volumes: ["reader-access:/etc/fleet/access:ro"] },
    ],
    ["writer: can write to writer-access", "writer", { volumes: ["writer-access:/etc/fleet/access"] }],
    ["writer: mounts /var/run/docker.sock", "writer", { volumes: ["/var/run/docker.sock:/sock"] }],
    ["reader: has no signing key", "reader", { volumes: ["reader-access:/etc/fleet/access:ro"] }],
    ["watchdog: has no signing key", "watchdog", { environment: {} }],
    [
      "writer: cannot make its next signing key",
      "writer",
      { volumes: ["signing-key:/etc/fleet/signing:ro"] },
    ],
    ["gateway: mounts the signing key", "gateway", { volumes: ["signing-key:/etc/fleet/signing"] }],
    [
      "writer: waits for the health of init",
      "writer",
      { depends_on: { init: { condition: "service_healthy" } } },
    ],
    ["writer: waits for nats-9", "writer", { depends_on: { "nats-9": { condition: "service_healthy" } } }],
  ];
  for (const [problem, name, change] of cases) expect(changed(name, change)).toContain(problem);
});

test("the default has every part of the architecture", () => {
  const counts = Object.fromEntries(usual.map(([name, { deploy }]) => [name, deploy?.replicas ?? 1]));
  expect(counts).toEqual({
    ...{ init: 1, "nats-0": 1, "nats-1": 1, "nats-2": 1, foundationdb: 1, database: 1 },
    ...{ writer: 2, reader: 2, coordinator: 1, watchdog: 2, gateway: 1 },
    ...{ prometheus: 1, grafana: 1, collector: 1 },
  });
  for (const name of ["writer", "reader", "coordinator", "watchdog", "gateway"])
    expect(file.services[name]?.command, name).toEqual(["node", `services/${name}/main.ts`]);
  expect(
    Object.entries(file.services).filter(([, { profiles }]) => profiles?.includes("single")),
  ).toHaveLength(1);
});

test("all three servers of the bus sync each message, speak TLS, and are one cluster", () => {
  expect(text("deploy/nats/nats.conf")).toMatch(/^ {2}sync_interval: always$/m);
  for (const name of ["nats-0", "nats-1", "nats-2"]) {
    const service = file.services[name] as ComposeService;
    const mounts = mountsOf(service);
    const from = (target: string) => mounts.find((one) => one.target === target)?.source ?? "";
    const server = text(from("/etc/fleet/server/server.conf"));
    // The generated file is that of deploy/nats with the identity of the fleet; access.test.ts reads it.
    expect(server).toMatch(/^include "\.\.\/access\/nats\.conf"$/m);
    expect(server).not.toMatch(/sync_interval|jetstream/);
    expect(server).toContain('cert_file: "/etc/fleet/tls/tls.crt"');
    expect([from("/etc/fleet/access"), from("/etc/fleet/tls")]).toEqual(["nats-access", "nats-access"]);
    const cluster = text(from("/etc/fleet/server/cluster.conf"));
    const { bus } = service.networks as Record<string, { aliases: string[] }>;
    expect(cluster).toContain(`nats-route://${bus?.aliases[0]}:6222`);
    expect(cluster).toMatch(/ca_file: /);
    expect(from("/data")).toBe(name);
  }
});

test("the services know the monitoring address of every server", () => {
  const servers = Object.keys(file.services).filter((name) => /^nats-\d$/.test(name));
  for (const [name, { environment = {} }] of usual) {
    const known = environment.FLEET_NATS_MONITOR_URL;
    if (known === undefined) continue;
    expect(known, name).toBe(servers.map((server) => `http://${server}:8222`).join(","));
  }
  expect(file.services.writer?.environment).toHaveProperty("FLEET_NATS_MONITOR_URL");
});

test("the servers start as those of Kubernetes do", () => {
  const folded = (script: string) => script.replaceAll(/\s+/g, " ").trim();
  const [pod] = text("deploy/kubernetes/base/nats.yaml").split(/^---$/m);
  const { containers } = parse(pod ?? "").spec.template.spec as { containers: { command: string[] }[] };
  const [own] = file.services["nats-0"]?.command ?? [];
  expect(folded(own?.replaceAll("$$", "$") ?? "")).toBe(folded(containers[0]?.command.at(-1) ?? ""));
});

test("only the store's clients are in its network, which has no way out", () => {
  expect(file.networks.store).toEqual({ internal: true });
  const members = usual
    .filter(([, { networks }]) => JSON.stringify(networks).includes('"store"'))
    .map(([name]) => name);
  expect(members.sort()).toEqual(["coordinator", "database", "foundationdb", "reader", "watchdog", "writer"]);
});

test("every variable of a container is a setting, and every named file exists", () => {
  for (const [name, service] of Object.entries(file.services)) {
    const names = Object.keys(service.environment ?? {}).filter((one) => one.startsWith("FLEET_"));
    expect(
      names.filter((one) => !SETTING_NAMES.has(one)),
      name,
    ).toEqual([]);
    const files = mountsOf(service).filter(({ source }) => source.startsWith("."));
    expect(
      files.filter(({ source }) => !existsSync(join(projectRoot, source))),
      name,
    ).toEqual([]);
    const sources = mountsOf(service)
      .map(({ source }) => source)
      .filter((source) => !source.startsWith("."));
    expect(
      sources.filter((source) => !(source in file.volumes)),
      name,
    ).toEqual([]);
  }
});

test("the table of variables is complete, and the defaults are those of the Dockerfile", () => {
  const page = text("deploy/compose/README.md");
  const rows = [...page.matchAll(/^\| (`[A-Z][^|]*) \| ([^|]*) \|/gm)];
  const listed = rows.flatMap(([, names = "", defaults = ""]) => {
    const values = [...defaults.matchAll(/`([^`]*)`/g)].map(([, value = ""]) => value);
    return [...names.matchAll(/`([^`]*)`/g)].map(
      ([, name = ""], index) => [name, values[index] ?? ""] as const,
    );
  });
  expect(new Map(listed)).toEqual(composeVariables());
  const build = buildVariables({});
  for (const name of ["NODE_IMAGE", "NATS_IMAGE", "FDB_IMAGE", "FDB_VERSION", "PACKAGES"])
    expect(composeVariables().get(name), name).toBe(build.get(name));
  expect(Object.keys(file.services.init?.build?.args ?? {}).filter((name) => !build.has(name))).toEqual([]);
});

test("Prometheus reads every service, and the rules", () => {
  const { services } = file;
  const config = parse(text("deploy/compose/prometheus.yaml"));
  const [fleet] = config.scrape_configs;
  expect(fleet.dns_sd_configs[0].names).toEqual(["writer", "reader", "coordinator", "watchdog", "gateway"]);
  const targets = mountsOf(services.prometheus as ComposeService).map(({ target }) => target);
  for (const rules of config.rule_files) expect(targets).toContain(`/etc/prometheus/${rules}`);
  const { datasources } = parse(text("deploy/grafana/provisioning/datasources.yaml"));
  expect(datasources[0].url).toBe("http://prometheus:9090");
});

test.skipIf(promtoolVersion() === undefined)("promtool accepts the configuration of Prometheus", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-prometheus-"));
  try {
    for (const { source, target } of mountsOf(file.services.prometheus as ComposeService))
      if (source.endsWith(".yaml")) cpSync(join(projectRoot, source), join(folder, basename(target)));
    const run = spawnSync("promtool", ["check", "config", join(folder, "prometheus.yaml")], {
      encoding: "utf8",
    });
    expect(run.stdout + run.stderr).toContain("SUCCESS");
    expect(run.status).toBe(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the pipelines of the collector name its components, and services send to its port", () => {
  const config = parse(text("deploy/compose/collector.yaml"));
  for (const pipeline of Object.values(config.service.pipelines) as Record<string, string[]>[])
    for (const [kind, names] of Object.entries(pipeline))
      for (const name of names) expect(Object.keys(config[kind])).toContain(name);
  const { endpoint } = config.receivers.otlp.protocols.http;
  const sent = file.services.writer?.environment?.OTEL_EXPORTER_OTLP_ENDPOINT;
  expect(sent).toBe(`http://collector:${endpoint.split(":")[1]}`);
});
