/** The member `$schema` of a settings file, by which editors find its JSON Schema. It is no setting. */
export function withoutSchema(settings: unknown): unknown {
  if (typeof settings !== "object" || settings === null || Array.isArray(settings)) return settings;
  const { $schema, ...rest } = settings as Record<string, unknown>;
  return rest;
}
