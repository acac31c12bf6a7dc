/** The rules of Prometheus, the expressions of the dashboards, and the program that checks them. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { DASHBOARDS } from "../../../deploy/grafana/dashboard.ts";
import { RULES } from "../../../deploy/prometheus/prometheus-rule.ts";

export interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Dashboard {
  readonly uid: string;
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
}

export const rules: readonly Rule[] = (
  parse(readFileSync(RULES, "utf8")) as { groups: { rules: Rule[] }[] }
).groups.flatMap((group) => group.rules);

export const alerts = rules.filter((rule) => rule.alert !== undefined);

export const readDashboards = (): Dashboard[] =>
  readdirSync(DASHBOARDS).map(
    (name) => JSON.parse(readFileSync(join(DASHBOARDS, name), "utf8")) as Dashboard,
  );

/** A selector of an expression: the name of a metric, and the names of its labels. */
export interface Selector {
  readonly name: string;
  readonly labels: readonly string[];
}

/** The metrics that an expression reads, in the ways that this project writes them. */
export function selectors(expr: string): Selector[] {
  const found = expr.matchAll(
    /(?<![\w:$])((?:fleet|checkpoint|handoff|recovery)[_:][\w:]*)(?:\{([^}]*)\})?/g,
  );
  return [...found].map(([, name = "", matchers = ""]) => ({
    name,
    labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label),
  }));
}

/** undefined: `promtool` is not on PATH. */
export const promtoolVersion = (): string | undefined =>
  /promtool, version (\S+)/.exec(
    spawnSync("promtool", ["--version"], { encoding: "utf8" }).stdout ?? "",
  )?.[1];
