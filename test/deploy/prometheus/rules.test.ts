// Alerts and dashboards read metrics that exist, and lead to sections of the runbook that exist. Where promtool is installed, each alert
// fires in its situation and none fires in a healthy fleet.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { BOARDS } from "../../../deploy/grafana/boards.ts";
import { dashboards } from "../../../deploy/grafana/dashboard.ts";
import { PROMETHEUS_RULE, prometheusRule, RULES } from "../../../deploy/prometheus/prometheus-rule.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { FIRING, HEALTHY, type Series, type Situation } from "./alert-situations.ts";
import { alerts, promtoolVersion, readDashboards, rules, type Selector, selectors } from "./rule-file.ts";

/** A start of promtool takes seconds on a busy machine. */
const PROCESS_MS = 120_000;
const BUDGET_DAYS = "30d";
const folder = mkdtempSync(join(tmpdir(), "fleet-rules-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const { registry } = createMetrics();
const recorded = new Set(rules.flatMap(({ record }) => (record === undefined ? [] : [record])));

/** undefined: the selector reads a metric that exists, by labels that it has. */
function problemOf({ name, labels }: Selector): string | undefined {
  if (recorded.has(name)) return undefined;
  const plain = name.replace(/_(?:bucket|sum|count)$/, "");
  const metric = registry.getSingleMetric(name) ?? registry.getSingleMetric(plain);
  if (metric === undefined) return `${name} is no metric`;
  const known = [...(metric as unknown as { labelNames: string[] }).labelNames, "service", "le"];
  const unknown = labels.filter((label) => !known.includes(label));
  return unknown.length === 0 ? undefined : `${name} has no label ${unknown.join(", ")}`;
}

/** The anchors of the runbook's sections, as GitHub writes them. */
function anchors(): Set<string> {
  const runbook = readFileSync(join(projectRoot, "services/watchdog/RUNBOOK.md"), "utf8");
  const titles = [...runbook.matchAll(/^## (.*)$/gm)].map(([, title = ""]) => title.toLowerCase());
  return new Set(titles.map((title) => title.replace(/[^\w _-]/g, "").replaceAll(" ", "-")));
}

test("every metric and label of a rule exists", () => {
  const read = rules.flatMap(({ expr }) => selectors(expr));
  expect(read.length).toBeGreaterThan(rules.length);
  expect(read.map(problemOf).filter((problem) => problem !== undefined)).toEqual([]);
});

test("every metric and label of a dashboard exists, and every expression has one", () => {
  const targets = readDashboards().flatMap(({ panels }) => panels.flatMap((panel) => panel.targets));
  const read = targets.map(({ expr }) => selectors(expr));
  expect(read.filter((found) => found.length === 0)).toEqual([]);
  expect(
    read
      .flat()
      .map(problemOf)
      .filter((problem) => problem !== undefined),
  ).toEqual([]);
});

test("an unknown metric and an unknown label are found", () => {
  const found = selectors('sum(rate(fleet_gone_total[5m])) > max(fleet_recoveries{stage="blocked"})');
  expect(found.map(problemOf)).toEqual([
    "fleet_gone_total is no metric",
    "fleet_recoveries has no label stage",
  ]);
});

test("every alert has a severity, a summary and an existing section of the runbook", () => {
  const sections = anchors();
  expect(alerts.length).toBeGreaterThan(30);
  for (const { alert, labels, annotations } of alerts) {
    expect(labels?.severity, alert).toMatch(/^(page|ticket)$/);
    expect(annotations?.summary, alert).toMatch(/\w/);
    const [page, anchor = ""] = (annotations?.runbook_url ?? "").split("#");
    expect(page, alert).toBe("services/watchdog/RUNBOOK.md");
    expect(sections, alert).toContain(anchor);
  }
});

test("the dashboards and the resource of Prometheus' operator are up to date (npm run generate)", () => {
  expect(readFileSync(PROMETHEUS_RULE, "utf8")).toBe(prometheusRule());
  const files = dashboards();
  expect([...files.keys()].map((name) => name.replace(".json", ""))).toEqual(Object.keys(BOARDS));
  for (const [name, text] of files)
    expect(readFileSync(join(projectRoot, "deploy/grafana/dashboards", name), "utf8")).toBe(text);
});

test("every alert has a situation in which it fires", () => {
  expect(Object.keys(FIRING)).toEqual(alerts.map(({ alert }) => alert));
});

const version = promtoolVersion();
if (version === undefined) process.stderr.write("rules: not checked by promtool, which is not on PATH\n");

describe.skipIf(version === undefined)("promtool", { timeout: PROCESS_MS }, () => {
  test("accepts the rules", () => {
    const run = spawnSync("promtool", ["check", "rules", RULES], { encoding: "utf8" });
    expect(run.status, run.stderr).toBe(0);
  });

  test("sees no alert in a healthy fleet, and a full error budget", () => {
    const healthy = situationTest(HEALTHY, "4h", [
      ...alerts.map(({ alert = "" }) => noneOf(alert)),
      { expr: "fleet:write_error_budget:remaining_ratio30d", exp_samples: budget("write", 1) },
      { expr: "fleet:recovery_success:ratio_1h", exp_samples: [{ labels: successLabel, value: 1 }] },
    ]);
    expectPassed([healthy]);
  });

  test("sees each alert fire in its situation", () => {
    const all = Object.entries(FIRING);
    const isSlow = ([, { every }]: [string, Situation]) => every !== undefined;
    expectPassed(all.filter((one) => !isSlow(one)).map(firingTest));
    // One interval of evaluation for a file: with a minute, two days would take a minute of the processor.
    expectPassed(all.filter(isSlow).map(firingTest), "1h");
  });

  test("sees the error budget shrink with the failures", () => {
    // 0.6 of 6,600 commands a minute fail: nine tenths of what the objective allows.
    const series = { ...HEALTHY, 'fleet_commands_total{op="create", outcome="TIMEOUT"}': "0+0.6x300" };
    const left = 1 - 0.6 / 6_600.6 / 0.0001;
    const expr = `round(fleet:write_error_budget:remaining_ratio${BUDGET_DAYS}, 0.0001)`;
    const value = Math.round(left * 10_000) / 10_000;
    expectPassed([situationTest(series, "4h", [{ expr, exp_samples: [{ labels: "{}", value }] }])]);
  });

  test("fails where an expectation is wrong", () => {
    expect(run([situationTest(HEALTHY, "1h", [fires("FleetDiskLow")])]).status).not.toBe(0);
  });
});

interface Expectation {
  readonly expr: string;
  readonly exp_samples: readonly { readonly labels: string; readonly value: number }[];
}

const successLabel = '{__name__="fleet:recovery_success:ratio_1h"}';
const budget = (kind: string, value: number) => [
  { labels: `{__name__="fleet:${kind}_error_budget:remaining_ratio${BUDGET_DAYS}"}`, value },
];
const noneOf = (alert: string): Expectation => ({
  expr: `ALERTS{alertname="${alert}", alertstate="firing"}`,
  exp_samples: [],
});
const fires = (alert: string): Expectation => ({
  expr: `count(ALERTS{alertname="${alert}", alertstate="firing"}) > bool 0`,
  exp_samples: [{ labels: "{}", value: 1 }],
});

function firingTest([alert, { series, at = "1h", every, without }]: [string, Situation]) {
  const kept = Object.entries(HEALTHY).filter(([name]) => without?.test(name) !== true);
  return situationTest({ ...Object.fromEntries(kept), ...series }, at, [fires(alert)], every);
}

const situationTest = (series: Series, at: string, expectations: readonly Expectation[], every = "1m") => ({
  interval: every,
  input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
  promql_expr_test: expectations.map((one) => ({ ...one, eval_time: at })),
});

function run(tests: readonly object[], every = "1m") {
  const path = join(folder, "rules-test.json");
  writeFileSync(path, JSON.stringify({ rule_files: [RULES], evaluation_interval: every, tests }));
  return spawnSync("promtool", ["test", "rules", path], { encoding: "utf8" });
}

function expectPassed(tests: readonly object[], every?: string): void {
  const result = run(tests, every);
  expect(result.stdout + result.stderr).toContain("SUCCESS");
  expect(result.status).toBe(0);
}
