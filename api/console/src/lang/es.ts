import type { en } from "./en";

export const es: Record<keyof typeof en, string> = {
  // Marco
  pages: "Páginas", skip: "Ir al contenido", network: "Red", charts: "Gráficos", boards: "Tableros", diagrams: "Diagramas",
  devices: "Equipos", access: "Accesos", keys: "Atajos de teclado", keySearch: "Buscar", keyPeriods: "Período de los gráficos",
  keyEdit: "Editar el diagrama", keySave: "Guardar el diagrama", keyUndo: "Deshacer", close: "Cerrar", logout: "Salir",
  theme: "Colores: {theme}", themeAuto: "como el sistema", themeLight: "claros", themeDark: "oscuros",
  // Estados
  loading: "Cargando…", failedTitle: "No se pudo cargar.", failedStatus: "El servidor respondió {status}.",
  unreachable: "No se puede alcanzar el servidor.", retry: "Reintentar", forbiddenTitle: "No tiene acceso a esto.",
  updated: "Actualizado", staleSince: "Sin valores nuevos desde las {time}.", staleHolds: "Los valores mostrados son de",
  noMatch: "No hay coincidencias.", search: "Buscar",
  // Ingreso
  login: "Ingresar", logIn: "Ingresar", loggingIn: "Ingresando…", email: "Correo electrónico", tokenApp: "Token de aplicación del usuario",
  schemaName: "Esquema del cliente", tsName: "Base de series de tiempo", loginRefused: "Ingreso rechazado: revise los cuatro campos.",
  endedExpired: "Su sesión expiró. Ingrese de nuevo.", endedLeft: "Ha salido de la sesión.",
  demoText: "Este servidor muestra una demostración: una pequeña red de agua con valores en vivo.", demoOpen: "Abrir la demostración",
  demoPreparing: "La demostración se está preparando. Intente de nuevo en unos segundos.",
  // Valores
  noData: "Sin datos", on: "Encendido", off: "Apagado", noVariables: "Aún no hay variables configuradas. Un administrador las importa:",
  searchVariables: "Buscar entre {count} variables", abnormal: "Anormal", outOfLimits: "fuera de límites",
  lastMeasured: "sin valor nuevo desde {time} ({age})", computed: "calculada", sparkline: "{name}, últimas 24 horas: de {low} a {high}",
  // Gráficos
  addVariable: "Agregar una variable", typeName: "Escriba un nombre", chooseVariables: "Agregue variables escribiendo su nombre para ver su historia.",
  period: "Período", ownPeriod: "Propio…", from: "Desde", to: "hasta", show: "Mostrar", keyIs: "Tecla {key}", noUnit: "sin unidad",
  least: "mín.", greatest: "máx.", remove: "Quitar {name}", chartHint: "Arrastre para ampliar, doble clic para volver.",
  // Tableros
  noBoards: "Aún no hay tableros configurados. Un administrador los importa:",
  // Diagramas
  diagram: "Diagrama", diagramId: "Número del diagrama", open: "Abrir", newDiagram: "Diagrama nuevo",
  noRecents: "Los diagramas se abren por su número. Aquí aparecen los que ha abierto.",
  noDiagram: "No existe el diagrama {id}.", diagramAlt: "Diagrama {title} con {count} objetos", otherDiagram: "Otros diagramas", edit: "Editar",
  // Editor
  toolSelect: "Seleccionar", toolLine: "Línea", toolPolyline: "Polilínea", toolText: "Texto", toolImage: "Imagen",
  undo: "Deshacer", redo: "Rehacer", save: "Guardar", saving: "Guardando…", savedDone: "Guardado", unsaved: "Sin guardar", leaveEditor: "Salir",
  objects: "Objetos", properties: "Propiedades", isNew: "(nuevo)", canvasLabel: "Dibujo. Elija una herramienta y pulse Intro para colocar un objeto; las flechas lo mueven.",
  chosenCount: "{count} objetos", chosenHint: "Las flechas los mueven, Supr los borra.", delete: "Borrar",
  title: "Título", backgroundColor: "Color de fondo", backgroundImg: "Imagen de fondo (dirección)", width: "Ancho", height: "Alto",
  color: "Color", thickness: "Grosor", flow: "Muestra flujo", invertFlow: "Contra el sentido de la línea", closed: "Cerrada", filled: "Con relleno",
  fill: "Relleno", fontSize: "Tamaño", address: "Dirección", angle: "Ángulo", place: "Posición", shown: "Visible", variable: "Variable", unbind: "No mostrar variable",
  symbol: "Símbolo", symbolOther: "otra imagen", symbolTank: "Tanque", symbolPump: "Bomba", symbolValve: "Válvula", symbolReservoir: "Embalse",
  symbolStation: "Estación de bombeo", symbolMeter: "Medidor de caudal", symbolGauge: "Manómetro", symbolDoser: "Dosificador", symbolSensor: "Sensor", symbolPanel: "Tablero", symbolZone: "Zona",
  upload: "Subir una imagen", file: "Archivo", accessKey: "Clave de acceso", secretKey: "Clave secreta",
  conflictTitle: "Otra persona guardó este diagrama", conflictText: "Objetos que difieren: {count}. Nada se pierde hasta que elija.",
  conflictMine: "El suyo, sin guardar", conflictTheirs: "El de la otra persona, guardado", keepMine: "Guardar el suyo encima", takeTheirs: "Descartar el suyo y cargar el otro",
  // Equipos
  notifyTitle: "Notificaciones de los equipos", noNotify: "Aún no hay notificaciones configuradas. Un administrador las importa:",
  eventCount: "{count} eventos, {alarms} con alarma", chooseDevice: "Elija la versión de un equipo para ver sus eventos y enviar su configuración.",
  alarmEvents: "Eventos con alarma", event: "Evento {id}", changed: "cambiado", topic: "Tópico", source: "Miembro del mensaje",
  send: "Enviar", sending: "Enviando…", notSent: "No se envió:", sentTo: "El bróker recibió el mensaje para {topic} el {time}.",
  matched: "Hay un equipo suscrito que lo recibe.", unmatched: "Ningún equipo está suscrito a este tópico ahora.", reasonCode: "(código MQTT {code})",
  // Accesos
  accessTitle: "Quién ve qué", user: "Usuario", profile: "Perfil", profileAlone: "solo el perfil",
  accessHint: "Solo los administradores ven otros usuarios y perfiles.", noMenus: "Aún no hay ítems de menú configurados. Un administrador los importa:",
  menuItem: "Ítem del menú", path: "Ruta", byProfile: "Perfil {id}", byUser: "Usuario {id}", result: "Resultado",
  granted: "concedido", denied: "negado", inactive: "inactivo", sees: "lo ve", seesNot: "no lo ve",
};
