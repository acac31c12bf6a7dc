/** What a team can require of its fleet. Without it a fleet on a laptop is sound. */
export const REQUIREMENTS = ["encryption"] as const;
export type Requirement = (typeof REQUIREMENTS)[number];
