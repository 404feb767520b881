declare module "*.css";
declare module "uplot.css";
